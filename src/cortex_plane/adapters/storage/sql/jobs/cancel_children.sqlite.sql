-- Cancels the children that end with their parent, unless it goes on or completed.
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
where parent_id = :parent_id
  and cancel_with_parent
  and status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
  and not exists (select 1 from cortex.job p where p.id = :parent_id and p.status not in ('FAILED', 'CANCELLED'))
returning id;
