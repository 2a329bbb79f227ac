-- Submits a batch of jobs. Sent twice, it changes nothing: the ids are the caller's.
-- Differs: a batch is jsonb_each here, and positions come from the counter table.
insert into cortex.job (
  id, tenant_id, agent_id, job_type, queue, payload, priority, position, max_retries, retry_policy, run_at, timeout_seconds,
  job_key, serial_key, tags, created_by, template_id, group_id, schedule_id, request_id, trace_id, parent_id, session_id,
  cancel_with_parent, checkpoint_id, checkpoint, worker_job_id, cause, actor, created_at, queued_at, updated_at)
select value ->> 'id', value ->> 'tenant_id', value ->> 'agent_id', value ->> 'job_type', value ->> 'queue',
  value -> 'payload', value ->> 'priority',
  (select c.value from cortex.counter c where name = 'position') + 100 * (key + 1),
  value ->> 'max_retries', nullif(value -> 'retry_policy', 'null'),
  coalesce(value ->> 'run_at', :now + cast(round(1000000 * (value ->> 'delay_seconds')) as integer)),
  value ->> 'timeout_seconds', value ->> 'job_key', value ->> 'serial_key', value -> 'tags',
  coalesce(value ->> 'created_by', (select p.created_by from cortex.job p where p.id = value ->> 'parent_id')),
  value ->> 'template_id', value ->> 'group_id', value ->> 'schedule_id',
  value ->> 'request_id', value ->> 'trace_id', value ->> 'parent_id',
  coalesce(value ->> 'session_id', (select p.session_id from cortex.job p where p.id = value ->> 'parent_id')),
  coalesce(value ->> 'cancel_with_parent', 0),
  value ->> 'checkpoint_id', value -> 'checkpoint',
  (select c.value from cortex.counter c where name = 'queue_entry') + key + 1,
  'submit', value ->> 'created_by', :now, :now, :now
from jsonb_each(:jobs)
where not exists (select 1 from cortex.job j where j.id = value ->> 'id');
