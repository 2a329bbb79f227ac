-- Submits a batch of jobs. Sent twice, it changes nothing: the ids are the caller's.
-- Differs: a batch is a jsonb record set here, and positions come from a sequence.
insert into cortex.job (
  id, tenant_id, agent_id, job_type, queue, payload, priority, max_retries, retry_policy, run_at, timeout_seconds, job_key,
  serial_key, tags, created_by, template_id, group_id, schedule_id, request_id, trace_id, parent_id, session_id,
  cancel_with_parent, checkpoint_id, checkpoint, cause, actor)
select id, tenant_id, agent_id, job_type, queue, payload, priority, max_retries, retry_policy,
  coalesce(cortex.instant(run_at), cortex.now() + delay_seconds * interval '1 second'),
  timeout_seconds, job_key, serial_key, tags,
  case when j.parent_id is null then created_by
    else coalesce(j.created_by, (select p.created_by from cortex.job p where p.id = j.parent_id)) end,
  template_id, group_id, schedule_id, request_id, trace_id, parent_id,
  case when j.parent_id is null then session_id
    else coalesce(j.session_id, (select p.session_id from cortex.job p where p.id = j.parent_id)) end,
  coalesce(cancel_with_parent, false), checkpoint_id, checkpoint, 'submit', created_by
from jsonb_to_recordset(cast(:jobs as jsonb)) as j(
  id uuid, tenant_id uuid, agent_id uuid, job_type text, queue text, payload jsonb, priority int, max_retries int,
  retry_policy jsonb, run_at bigint, delay_seconds double precision, timeout_seconds double precision, job_key text,
  serial_key text, tags jsonb, created_by text, template_id uuid, group_id uuid, schedule_id uuid,
  request_id uuid, trace_id text, parent_id uuid, session_id uuid,
  cancel_with_parent boolean, checkpoint_id uuid, checkpoint json)
on conflict (id) do nothing;
