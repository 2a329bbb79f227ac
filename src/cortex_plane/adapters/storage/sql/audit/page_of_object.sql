-- Entries about one object, newest first. They are few: all are found by their index, then put in order.
with about as materialized (
  select seq, at, tenant_id, actor, action, object_type, object_id, reason, source, details
  from cortex.audit_log
  where object_id = :object_id
)
select seq, at, tenant_id, actor, action, object_type, object_id, reason, source, details
from about
where at >= :since
  and (at, seq) < (:upper_at, :upper_seq)
  and (cast(:actor as text) is null or actor = cast(:actor as text))
  and (cast(:action as text) is null or action = cast(:action as text))
  and (cast(:tenant_id as text) is null or cast(tenant_id as text) = cast(:tenant_id as text))
order by at desc, seq desc
limit :limit;
