-- What was recorded about one object, oldest first.
select at, actor, action, object_type, object_id, details
from cortex.audit_log
where object_id = :object_id
order by seq;
