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
