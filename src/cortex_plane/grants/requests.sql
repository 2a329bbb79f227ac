-- name: add [postgres]
-- Remembers a request. No row means that its key is known.
-- Differs: PostgreSQL wants to be told the types.
insert into cortex.execution_request
  (id, tenant_id, idempotency_key, request_hash, graph_id, grant_id, billing_account_id, virtual_key_id, run_id, trace_id,
   service_name, created_at)
select cast(:id as uuid), cast(:tenant_id as uuid), cast(:idempotency_key as text), cast(:request_hash as text),
  cast(:graph_id as text), g.id, b.id, b.default_virtual_key_id, cast(:run_id as uuid), cast(:trace_id as text),
  cast(:service_name as text), :now
from cortex.execution_grant g
join cortex.billing_account b on b.id = g.billing_account_id
where g.id = cast(:grant_id as uuid)
on conflict (tenant_id, idempotency_key) do nothing
returning id;

-- name: add [sqlite]
-- Remembers a request. No row means that its key is known.
-- Differs: PostgreSQL wants to be told the types.
insert into cortex.execution_request
  (id, tenant_id, idempotency_key, request_hash, graph_id, grant_id, billing_account_id, virtual_key_id, run_id, trace_id,
   service_name, created_at)
select :id, :tenant_id, :idempotency_key, :request_hash, :graph_id, g.id, b.id, b.default_virtual_key_id, :run_id, :trace_id,
  :service_name, :now
from cortex.execution_grant g
join cortex.billing_account b on b.id = g.billing_account_id
where g.id = :grant_id
on conflict (tenant_id, idempotency_key) do nothing
returning id;

-- name: by_key
-- What was asked for with a key.
select id, tenant_id, idempotency_key, request_hash, graph_id, grant_id, billing_account_id, virtual_key_id, run_id, trace_id, service_name,
  outcome, outcome_message, created_at, finished_at
from cortex.execution_request
where tenant_id = :tenant_id and idempotency_key = :idempotency_key;

-- name: by_run
-- What a run was started for.
select id, tenant_id, idempotency_key, request_hash, graph_id, grant_id, billing_account_id, virtual_key_id, run_id, trace_id, service_name,
  outcome, outcome_message, created_at, finished_at
from cortex.execution_request
where run_id = :run_id;

-- name: get
-- A request.
select id, tenant_id, idempotency_key, request_hash, graph_id, grant_id, billing_account_id, virtual_key_id, run_id, trace_id, service_name,
  outcome, outcome_message, created_at, finished_at
from cortex.execution_request
where id = :id;

-- name: receipts
-- What a run has used, its retries included.
select c.run_id, c.attempt, c.unit, c.quantity, c.billing_account_id, c.grant_id, c.virtual_key_id, c.created_at, c.updated_at
from cortex.execution_request r
join cortex.charge_receipt c on c.request_id = r.id
where r.run_id = :run_id
order by c.created_at, c.run_id, c.attempt, c.unit;
