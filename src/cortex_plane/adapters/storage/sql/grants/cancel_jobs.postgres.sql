-- Cancels every job that has not ended of a grant's schedules, and every run under it.
-- Differs: the queue entries are locked first, then the jobs in their order, or this would deadlock with claims and batches.
with concerned as materialized (
  select j.id from cortex.job j
  where j.schedule_id in (select s.id from cortex.schedule s where s.grant_id = cast(:grant_id as uuid))
    and j.status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
  union
  select j.id from cortex.job j
  where j.request_id in (
      select r.id from cortex.execution_request r where r.grant_id = cast(:grant_id as uuid) and r.finished_at is null)
    and j.status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
), entry as materialized (
  select 1 from cortex.queue_entry
  where job_id in (select id from concerned)
  order by job_id
  for update
), live as materialized (
  select id from cortex.job
  where id in (select id from concerned)
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
  cause = 'cancel',
  revision = j.revision + 1,
  updated_at = greatest(:now, j.updated_at),
  finished_at = greatest(:now, j.updated_at),
  actor = cast(:actor as text),
  note = cast(:note as jsonb)
from live l
where j.id = l.id
  and j.status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
returning j.id;
