-- Entries of the audit log in a range of numbers, in order.
select seq, at, tenant_id, actor, action, object_type, object_id, reason, source, details
from cortex.audit_log
where seq > :after and seq <= :through
order by seq
limit :limit;
