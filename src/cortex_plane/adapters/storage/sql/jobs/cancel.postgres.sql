-- Cancels a job that has not ended, at the revision that was seen; one to be replaced, before its first run. No row: neither.
-- Differs: the queue entry is locked first, as a claim does, or the two would deadlock.
with entry as materialized (
  select 1 from cortex.queue_entry where job_id = cast(:id as uuid) for update
)
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
  cause = cast(:cause as text),
  revision = revision + 1,
  updated_at = greatest(:now, updated_at),
  finished_at = greatest(:now, updated_at),
  actor = cast(:actor as text),
  note = cast(:note as jsonb)
where id = cast(:id as uuid)
  and status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
  and (cast(:cause as text) <> 'replace' or status = 'PENDING')
  and revision = coalesce(cast(:revision as bigint), revision)
  and (select count(*) from entry) >= 0
returning id;
