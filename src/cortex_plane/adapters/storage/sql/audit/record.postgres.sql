-- Records what somebody or something did.
-- Differs: a batch is a jsonb record set here.
insert into cortex.audit_log (tenant_id, actor, action, object_type, object_id, reason, source, details)
select tenant_id, actor, action, object_type, object_id, reason, source, nullif(details, 'null'::jsonb)
from jsonb_to_recordset(cast(:entries as jsonb)) as e(
  tenant_id uuid, actor text, action text, object_type text, object_id text, reason text, source text, details jsonb);
