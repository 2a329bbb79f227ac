-- Records what somebody or something did.
-- Differs: a batch is jsonb_each here.
insert into cortex.audit_log (id, at, actor, action, object_type, object_id, details)
select value ->> 'id', :now, value ->> 'actor', value ->> 'action', value ->> 'object_type', value ->> 'object_id',
  value -> 'details'
from jsonb_each(:entries);
