-- Lets a job go on that waited for this request: with an open run that no worker owns, and a place in the queue.
-- Differs: the trigger that makes the entry numbers it.
update cortex.job
set status = 'RUNNING',
  run_id = :run_id,
  worker_id = null,
  claimed_together = null,
  worker_job_id = null,
  attempt = attempt + 1,
  approval_token = null,
  approval_expires_at = null,
  updated_at = max(:now, updated_at),
  revision = revision + 1,
  cause = :cause,
  actor = :actor,
  note = :note
where id = :job_id
  and status = 'WAITING_FOR_APPROVAL'
  and approval_token = :token_hash
returning updated_at as at;
