-- What was recorded about one object, oldest first.
select seq, at, tenant_id, actor, action, object_type, object_id, reason, source, details
from cortex.audit_log
where object_id = :object_id
order by seq;
