-- Records what somebody or something did.
-- Differs: a batch is a jsonb record set here.
insert into cortex.audit_log (actor, action, object_type, object_id, details)
select actor, action, object_type, object_id, details
from jsonb_to_recordset(cast(:entries as jsonb)) as e(
  actor text, action text, object_type text, object_id text, details jsonb);
