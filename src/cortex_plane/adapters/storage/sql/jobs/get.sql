-- One job as it stands, with the id of its retry if it has one.
select j.id, j.tenant_id, j.agent_id, j.job_type, j.queue, j.status, j.priority, j.position, j.payload, j.output, j.error,
  j.error_message, j.retry_count, j.max_retries, j.attempt, j.crash_count, j.next_retry_at, j.run_at, j.wait_reason, j.run_id,
  j.worker_id, j.worker_job_id, j.job_key, j.serial_key, j.retry_of, j.parent_id, j.group_id, j.template_id, j.checkpoint_id,
  j.created_by, j.cost_cents, j.tags, j.revision, j.created_at, j.queued_at, j.started_at, j.updated_at, j.finished_at,
  (select r.id from cortex.job r where r.retry_of = j.id) as retried_as
from cortex.job j
where j.id = :id;
