-- Completions of jobs, newest first: they are most of all entries, so the index of all serves them.
select seq, at, tenant_id, actor, action, object_type, object_id, reason, source, details
from cortex.audit_log
where action = 'JOB_COMPLETED'
  and at >= :since
  and (at, seq) < (:upper_at, :upper_seq)
  and (cast(:actor as text) is null or actor = cast(:actor as text))
  and (cast(:tenant_id as text) is null or cast(tenant_id as text) = cast(:tenant_id as text))
order by at desc, seq desc
limit :limit;
