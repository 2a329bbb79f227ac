-- Cancels every member that has not ended.
-- Differs: the queue entries are locked first, then the jobs in their order, or this would deadlock with claims and batches.
with entry as materialized (
  select 1 from cortex.queue_entry
  where job_id in (select id from cortex.job where group_id = cast(:id as uuid))
  order by job_id
  for update
), member as materialized (
  select id from cortex.job
  where group_id = cast(:id as uuid)
    and status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
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
  cause = 'group',
  revision = j.revision + 1,
  updated_at = greatest(:now, j.updated_at),
  finished_at = greatest(:now, j.updated_at),
  actor = cast(:actor as text),
  note = cast(:note as jsonb)
from member m
where j.id = m.id
  and j.status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
returning j.id;
