-- Entries, newest first.
select seq, at, tenant_id, actor, action, object_type, object_id, reason, source, details
from cortex.audit_log
where at >= :since
  and (at, seq) < (:upper_at, :upper_seq)
order by at desc, seq desc
limit :limit;
