-- An operator's retry of a job that ended: a new job with the same work and all its retries, linked by retry_of.
-- Differs: positions come from the counter table here, and the time is bound.
insert into cortex.job (
  id, retry_of, cause, actor, position, worker_job_id, created_at, queued_at, updated_at, tenant_id, agent_id, job_type, queue, priority, payload, max_retries, retry_policy, timeout_seconds, serial_key, group_id,
  template_id, parent_id, cancel_with_parent, session_id, created_by, tags)
select :new_id, id, 'retry', :actor,
  (select c.value + 100 from cortex.counter c where c.name = 'position'),
  (select c.value + 1 from cortex.counter c where c.name = 'queue_entry'),
  :now, :now, :now, tenant_id, agent_id, job_type, queue, priority, payload, max_retries, retry_policy, timeout_seconds, serial_key, group_id,
  template_id, parent_id, cancel_with_parent, session_id, created_by, tags
from cortex.job
where id = :id
  and status in ('COMPLETED', 'FAILED', 'CANCELLED')
  and not exists (select 1 from cortex.job r where r.retry_of = :id)
returning id;
