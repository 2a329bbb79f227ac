-- Entries of one actor, newest first, without the completions of jobs.
select seq, at, tenant_id, actor, action, object_type, object_id, reason, source, details
from cortex.audit_log
where actor = :actor
  and action <> 'JOB_COMPLETED'
  and at >= :since
  and (at, seq) < (:upper_at, :upper_seq)
  and (cast(:action as text) is null or action = cast(:action as text))
  and (cast(:tenant_id as text) is null or cast(tenant_id as text) = cast(:tenant_id as text))
order by at desc, seq desc
limit :limit;
