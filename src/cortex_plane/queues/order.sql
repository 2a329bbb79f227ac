-- name: after
-- In one queue and priority, the first jobs after a place, the nearest first, leaving out one job, each with the state of its job.
-- One look for each state: the index of a queue holds them apart.
select near.job_id, near.position, (select j.status from cortex.job j where j.id = near.job_id) as status
from (
  select * from (
    select job_id, queue, rank, position, created_at, tenant_id
    from cortex.queue_entry
    where queue = :queue
      and state = 'ready'
      and rank = :rank
      and (position, created_at, job_id) > (:position, :created_at, :anchor)
      and job_id <> :left_out
    order by position, created_at, job_id
    limit :limit) of_ready
  union all
  select * from (
    select job_id, queue, rank, position, created_at, tenant_id
    from cortex.queue_entry
    where queue = :queue
      and state = 'later'
      and rank = :rank
      and (position, created_at, job_id) > (:position, :created_at, :anchor)
      and job_id <> :left_out
    order by position, created_at, job_id
    limit :limit) of_later
  union all
  select * from (
    select job_id, queue, rank, position, created_at, tenant_id
    from cortex.queue_entry
    where queue = :queue
      and state = 'blocked'
      and rank = :rank
      and (position, created_at, job_id) > (:position, :created_at, :anchor)
      and job_id <> :left_out
    order by position, created_at, job_id
    limit :limit) of_blocked
  union all
  select * from (
    select job_id, queue, rank, position, created_at, tenant_id
    from cortex.queue_entry
    where queue = :queue
      and state = 'held'
      and rank = :rank
      and (position, created_at, job_id) > (:position, :created_at, :anchor)
      and job_id <> :left_out
    order by position, created_at, job_id
    limit :limit) of_held
  order by position, created_at, job_id
  limit :limit) near
order by near.position, near.created_at, near.job_id;

-- name: before
-- In one queue and priority, the last jobs before a place, the nearest first, leaving out one job, each with the state of its job.
-- One look for each state: the index of a queue holds them apart.
select near.job_id, near.position, (select j.status from cortex.job j where j.id = near.job_id) as status
from (
  select * from (
    select job_id, queue, rank, position, created_at, tenant_id
    from cortex.queue_entry
    where queue = :queue
      and state = 'ready'
      and rank = :rank
      and (position, created_at, job_id) < (:position, :created_at, :anchor)
      and job_id <> :left_out
    order by position desc, created_at desc, job_id desc
    limit :limit) of_ready
  union all
  select * from (
    select job_id, queue, rank, position, created_at, tenant_id
    from cortex.queue_entry
    where queue = :queue
      and state = 'later'
      and rank = :rank
      and (position, created_at, job_id) < (:position, :created_at, :anchor)
      and job_id <> :left_out
    order by position desc, created_at desc, job_id desc
    limit :limit) of_later
  union all
  select * from (
    select job_id, queue, rank, position, created_at, tenant_id
    from cortex.queue_entry
    where queue = :queue
      and state = 'blocked'
      and rank = :rank
      and (position, created_at, job_id) < (:position, :created_at, :anchor)
      and job_id <> :left_out
    order by position desc, created_at desc, job_id desc
    limit :limit) of_blocked
  union all
  select * from (
    select job_id, queue, rank, position, created_at, tenant_id
    from cortex.queue_entry
    where queue = :queue
      and state = 'held'
      and rank = :rank
      and (position, created_at, job_id) < (:position, :created_at, :anchor)
      and job_id <> :left_out
    order by position desc, created_at desc, job_id desc
    limit :limit) of_held
  order by position desc, created_at desc, job_id desc
  limit :limit) near
order by near.position desc, near.created_at desc, near.job_id desc;

-- name: entry [postgres]
-- Where a waiting job stands. It is locked before its job is, as a claim does.
-- Differs: the lock.
select job_id, queue, rank, position, created_at, tenant_id
from cortex.queue_entry
where job_id = cast(:id as uuid)
for update;

-- name: entry [sqlite]
-- Where a waiting job stands.
-- Differs: there is nothing to lock.
select job_id, queue, rank, position, created_at, tenant_id
from cortex.queue_entry
where job_id = :id;

-- name: first
-- The first job of a queue, leaving out one.
-- One look for each state: the index of a queue holds them apart.
select * from (
  select job_id, queue, rank, position, created_at, tenant_id
  from cortex.queue_entry
  where queue = :queue
    and state = 'ready'
    and job_id <> :left_out
  order by rank, position, created_at, job_id
  limit 1) of_ready
union all
select * from (
  select job_id, queue, rank, position, created_at, tenant_id
  from cortex.queue_entry
  where queue = :queue
    and state = 'later'
    and job_id <> :left_out
  order by rank, position, created_at, job_id
  limit 1) of_later
union all
select * from (
  select job_id, queue, rank, position, created_at, tenant_id
  from cortex.queue_entry
  where queue = :queue
    and state = 'blocked'
    and job_id <> :left_out
  order by rank, position, created_at, job_id
  limit 1) of_blocked
union all
select * from (
  select job_id, queue, rank, position, created_at, tenant_id
  from cortex.queue_entry
  where queue = :queue
    and state = 'held'
    and job_id <> :left_out
  order by rank, position, created_at, job_id
  limit 1) of_held
order by rank, position, created_at, job_id
limit 1;

-- name: last
-- The last job of a queue, leaving out one.
-- One look for each state: the index of a queue holds them apart.
select * from (
  select job_id, queue, rank, position, created_at, tenant_id
  from cortex.queue_entry
  where queue = :queue
    and state = 'ready'
    and job_id <> :left_out
  order by rank desc, position desc, created_at desc, job_id desc
  limit 1) of_ready
union all
select * from (
  select job_id, queue, rank, position, created_at, tenant_id
  from cortex.queue_entry
  where queue = :queue
    and state = 'later'
    and job_id <> :left_out
  order by rank desc, position desc, created_at desc, job_id desc
  limit 1) of_later
union all
select * from (
  select job_id, queue, rank, position, created_at, tenant_id
  from cortex.queue_entry
  where queue = :queue
    and state = 'blocked'
    and job_id <> :left_out
  order by rank desc, position desc, created_at desc, job_id desc
  limit 1) of_blocked
union all
select * from (
  select job_id, queue, rank, position, created_at, tenant_id
  from cortex.queue_entry
  where queue = :queue
    and state = 'held'
    and job_id <> :left_out
  order by rank desc, position desc, created_at desc, job_id desc
  limit 1) of_held
order by rank desc, position desc, created_at desc, job_id desc
limit 1;

-- name: lock [postgres]
-- One move at a time: two that divide the same gap would meet in the middle.
-- Differs: SQLite has one writer. What follows in this transaction is planned without scans, whatever the size of the table was then.
select pg_advisory_xact_lock(1129270868, 2), set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true);

-- name: lock [sqlite]
-- Nothing: whoever writes is alone.
-- Differs: PostgreSQL has many writers.
select 1 where false;

-- name: look
-- Whether a job waits, and at which revision it is.
select status, revision
from cortex.job
where id = :id;

-- name: next_position [postgres]
-- The position of a job that is submitted now.
-- Differs: positions come from a sequence.
select nextval('cortex.job_position') as position;

-- name: next_position [sqlite]
-- The position of a job that is submitted now.
-- Differs: positions come from the counter table.
update cortex.counter
set value = value + 100
where name = 'position'
returning value as position;

-- name: place [postgres]
-- Gives a waiting job its place. No row means that it no longer waits, or has moved on from the revision that was seen.
-- Differs: PostgreSQL wants to be told the types.
update cortex.job
set priority = :priority,
  position = :position,
  revision = revision + 1,
  updated_at = greatest(:now, updated_at)
where id = cast(:id as uuid)
  and status in ('PENDING', 'RETRY')
  and revision = coalesce(cast(:revision as bigint), revision)
returning id;

-- name: place [sqlite]
-- Gives a waiting job its place. No row means that it no longer waits, or has moved on from the revision that was seen.
-- Differs: PostgreSQL wants to be told the types.
update cortex.job
set priority = :priority,
  position = :position,
  revision = revision + 1,
  updated_at = max(:now, updated_at)
where id = :id
  and status in ('PENDING', 'RETRY')
  and revision = coalesce(:revision, revision)
returning id;

-- name: shift [postgres]
-- Gives waiting jobs new positions; their order stays as it is. A job that is taken meanwhile keeps its position.
-- Differs: the entries are locked before the jobs, as a claim does.
with wanted as materialized (
  select cast(value ->> 0 as uuid) as job_id, cast(value ->> 1 as bigint) as position
  from jsonb_array_elements(cast(:positions as jsonb))
), entry as materialized (
  select job_id from cortex.queue_entry
  where job_id = any (array(select job_id from wanted))
  order by job_id
  for update
)
update cortex.job j
set position = w.position, updated_at = greatest(:now, j.updated_at)
from wanted w
where j.id = any (array(select job_id from entry))
  and j.id = w.job_id
  and j.status in ('PENDING', 'RETRY');

-- name: shift [sqlite]
-- Gives waiting jobs new positions; their order stays as it is.
-- Differs: there is nothing to lock.
update cortex.job as j
set position = w.value ->> 1, updated_at = max(:now, j.updated_at)
from json_each(:positions) w
where j.id = w.value ->> 0
  and j.status in ('PENDING', 'RETRY');
