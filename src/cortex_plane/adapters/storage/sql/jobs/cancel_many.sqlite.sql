-- Cancels those of the jobs that have not ended.
-- Differs: with one writer there is nothing to lock.
update cortex.job
set status = 'CANCELLED',
  run_id = null,
  worker_id = null,
  claimed_together = null,
  next_retry_at = null,
  wait_reason = null,
  approval_token = null,
  approval_expires_at = null,
  worker_job_id = null,
  cause = :cause,
  revision = revision + 1,
  updated_at = max(:now, updated_at),
  finished_at = max(:now, updated_at),
  actor = :actor,
  note = :note
where id in (select value from json_each(:ids))
  and status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
returning id;
