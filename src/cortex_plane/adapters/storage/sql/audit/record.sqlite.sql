-- Records what somebody or something did.
-- Differs: a batch is jsonb_each here.
insert into cortex.audit_log (at, tenant_id, actor, action, object_type, object_id, reason, source, details)
select :now, value ->> 'tenant_id', value ->> 'actor', value ->> 'action', value ->> 'object_type', value ->> 'object_id',
  value ->> 'reason', value ->> 'source', nullif(value -> 'details', 'null')
from jsonb_each(:entries);
