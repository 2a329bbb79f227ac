-- An operator's retry of a job that ended: a new job with the same work and all its retries, linked by retry_of.
-- Differs: positions come from a sequence here.
insert into cortex.job (
  id, retry_of, cause, actor, tenant_id, agent_id, job_type, queue, priority, payload, max_retries, retry_policy, timeout_seconds, serial_key, group_id,
  template_id, parent_id, cancel_with_parent, session_id, created_by, tags)
select cast(:new_id as uuid), id, 'retry', cast(:actor as text), tenant_id, agent_id, job_type, queue, priority, payload, max_retries, retry_policy, timeout_seconds, serial_key, group_id,
  template_id, parent_id, cancel_with_parent, session_id, created_by, tags
from cortex.job
where id = cast(:id as uuid)
  and status in ('COMPLETED', 'FAILED', 'CANCELLED')
on conflict (retry_of) where retry_of is not null do nothing
returning id;
