-- Completions of jobs among the newest :looked_through entries, newest first: they are most of all entries, and have no index.
select seq, at, tenant_id, actor, action, object_type, object_id, reason, source, details
from (
  select seq, at, tenant_id, actor, action, object_type, object_id, reason, source, details
  from cortex.audit_log
  where at >= :since
    and (at, seq) < (:upper_at, :upper_seq)
  order by at desc, seq desc
  limit :looked_through) newest
where action = 'JOB_COMPLETED'
  and (cast(:actor as text) is null or actor = cast(:actor as text))
  and (cast(:tenant_id as text) is null or cast(tenant_id as text) = cast(:tenant_id as text))
order by at desc, seq desc
limit :limit;
