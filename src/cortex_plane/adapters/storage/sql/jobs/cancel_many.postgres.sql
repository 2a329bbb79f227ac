-- Cancels those of the jobs that have not ended.
-- Differs: the queue entries are locked first, then the jobs in their order, or this would deadlock with claims and batches.
with wanted as materialized (
  select cast(value as uuid) as id from jsonb_array_elements_text(cast(:ids as jsonb))
), entry as materialized (
  select 1 from cortex.queue_entry
  where job_id in (select id from wanted)
  order by job_id
  for update
), live as materialized (
  select id from cortex.job
  where id in (select id from wanted)
    and (select count(*) from entry) >= 0
  order by id
  for update
)
update cortex.job j
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
  revision = j.revision + 1,
  updated_at = greatest(:now, j.updated_at),
  finished_at = greatest(:now, j.updated_at),
  actor = cast(:actor as text),
  note = cast(:note as jsonb)
from live l
where j.id = l.id
  and j.status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
returning j.id;
