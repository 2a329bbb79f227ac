-- name: entries
-- The first ready entries of a queue, in order.
select job_id, tenant_id, job_type, rank, position, created_at, serial_key
from cortex.queue_entry
where queue = :queue
  and state = 'ready'
order by rank, position, created_at, job_id
limit :limit;

-- name: failures [postgres]
-- Of the newest :limit jobs since :since that ended without success, those that failed.
-- Differs: the fence (offset 0) keeps the join a look-up by index, so that it never reads all jobs.
select newest.job_id as id, j.tenant_id, j.job_type, j.error_message, newest.created_at as ended_at
from (
  select job_id, new_status, created_at
  from cortex.job_history
  where new_status in ('FAILED', 'CANCELLED')
    and job_id >= :since
  order by job_id desc
  limit :limit) newest
cross join lateral (select tenant_id, job_type, queue, error_message from cortex.job where id = newest.job_id offset 0) j
where newest.new_status = 'FAILED'
  and j.queue <> 'cortex'
order by newest.job_id;

-- name: failures [sqlite]
-- Of the newest :limit jobs since :since that ended without success, those that failed.
-- Differs: here the join needs no fence.
select newest.job_id as id, j.tenant_id, j.job_type, j.error_message, newest.created_at as ended_at
from (
  select job_id, new_status, created_at
  from cortex.job_history
  where new_status in ('FAILED', 'CANCELLED')
    and job_id >= :since
  order by job_id desc
  limit :limit) newest
join cortex.job j on j.id = newest.job_id
where newest.new_status = 'FAILED'
  and j.queue <> 'cortex'
order by newest.job_id;

-- name: last_events
-- What the runs of one job told last, newest first.
select seq, job_id, run_id, at, kind, data
from cortex.job_event
where job_id = :job_id
order by seq desc
limit :limit;

-- name: recent [postgres]
-- The jobs of the newest :limit lines of history that were submitted at :since or later, oldest first.
-- Differs: the fence (offset 0) keeps the join a look-up by index, so that it never reads all jobs.
select seen.job_id as id, j.tenant_id, j.job_type, j.queue, j.status, seen.created_at, seen.started_at, seen.ended_at, seen.changes
from (
  select newest.job_id, count(*) as changes, min(newest.created_at) as created_at,
    min(case when newest.new_status = 'RUNNING' then newest.created_at end) as started_at,
    max(case when newest.new_status in ('COMPLETED', 'FAILED', 'CANCELLED') then newest.created_at end) as ended_at
  from (
    select job_id, new_status, created_at
    from cortex.job_history
    where job_id >= :since
    order by job_id desc, revision desc
    limit :limit) newest
  group by newest.job_id) seen
cross join lateral (select tenant_id, job_type, queue, status from cortex.job where id = seen.job_id offset 0) j
order by seen.job_id;

-- name: recent [sqlite]
-- The jobs of the newest :limit lines of history that were submitted at :since or later, oldest first.
-- Differs: here the join needs no fence.
select seen.job_id as id, j.tenant_id, j.job_type, j.queue, j.status, seen.created_at, seen.started_at, seen.ended_at, seen.changes
from (
  select newest.job_id, count(*) as changes, min(newest.created_at) as created_at,
    min(case when newest.new_status = 'RUNNING' then newest.created_at end) as started_at,
    max(case when newest.new_status in ('COMPLETED', 'FAILED', 'CANCELLED') then newest.created_at end) as ended_at
  from (
    select job_id, new_status, created_at
    from cortex.job_history
    where job_id >= :since
    order by job_id desc, revision desc
    limit :limit) newest
  group by newest.job_id) seen
join cortex.job j on j.id = seen.job_id
order by seen.job_id;

-- name: runs_of_workers
-- How many jobs each worker runs in the slots that it shows: the plane's own only for a worker that has nothing else.
select r.worker_id, count(*) as runs
from cortex.open_run r
join cortex.worker w on w.id = r.worker_id
where (r.queue = 'cortex') = (w.queues = '["cortex"]')
group by r.worker_id;
