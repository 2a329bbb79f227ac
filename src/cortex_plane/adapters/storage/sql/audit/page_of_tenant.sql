-- Entries of one tenant, newest first, without the completions of jobs.
select seq, at, tenant_id, actor, action, object_type, object_id, reason, source, details
from cortex.audit_log
where tenant_id = :tenant_id
  and action <> 'JOB_COMPLETED'
  and at >= :since
  and (at, seq) < (:upper_at, :upper_seq)
order by at desc, seq desc
limit :limit;
