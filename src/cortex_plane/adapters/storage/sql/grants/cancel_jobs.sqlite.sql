-- Cancels every job that has not ended of a grant's schedules, and every run under it.
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
  cause = 'cancel',
  revision = revision + 1,
  updated_at = max(:now, updated_at),
  finished_at = max(:now, updated_at),
  actor = :actor,
  note = :note
where id in (
    select j.id from cortex.job j
    where j.schedule_id in (select s.id from cortex.schedule s where s.grant_id = :grant_id)
    union all
    select j.id from cortex.job j
    where j.request_id in (select r.id from cortex.execution_request r where r.grant_id = :grant_id and r.finished_at is null))
  and status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
returning id;
