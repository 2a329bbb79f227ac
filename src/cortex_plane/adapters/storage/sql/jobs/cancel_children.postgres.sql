-- Cancels the children that end with their parent, unless it goes on or completed. One that is just ending is waited for.
-- Differs: the queue entries are locked first, then the jobs in their order, or this would deadlock with claims and batches.
with parent as materialized (
  select id from cortex.job
  where id = cast(:parent_id as uuid)
    and status not in ('FAILED', 'CANCELLED')
  for share
), entry as materialized (
  select 1 from cortex.queue_entry
  where (select count(*) from parent) = 0
    and job_id in (select id from cortex.job where parent_id = cast(:parent_id as uuid) and cancel_with_parent)
  order by job_id
  for update
), child as materialized (
  select id from cortex.job
  where (select count(*) from parent) = 0
    and (select count(*) from entry) >= 0
    and parent_id = cast(:parent_id as uuid)
    and cancel_with_parent
    and status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
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
  cause = 'cancel',
  revision = j.revision + 1,
  updated_at = greatest(:now, j.updated_at),
  finished_at = greatest(:now, j.updated_at),
  actor = cast(:actor as text),
  note = cast(:note as jsonb)
from child c
where j.id = c.id
  and j.status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
returning j.id;
