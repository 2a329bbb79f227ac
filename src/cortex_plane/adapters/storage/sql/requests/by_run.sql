-- What a run was started for.
select id, tenant_id, idempotency_key, request_hash, graph_id, grant_id, billing_account_id, virtual_key_id, run_id, trace_id, service_name,
  outcome, outcome_message, created_at, finished_at
from cortex.execution_request
where run_id = :run_id;
