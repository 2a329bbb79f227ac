-- Entries of one kind of action, newest first, but not of completions.
select seq, at, tenant_id, actor, action, object_type, object_id, reason, source, details
from cortex.audit_log
where action = :action
  and action <> 'JOB_COMPLETED'
  and at >= :since
  and (at, seq) < (:upper_at, :upper_seq)
  and (cast(:tenant_id as text) is null or cast(tenant_id as text) = cast(:tenant_id as text))
order by at desc, seq desc
limit :limit;
