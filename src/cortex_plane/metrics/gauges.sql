-- name: approvals [postgres]
-- How many jobs of each queue wait for people, and since when the first of all does.
-- Differs: instants have a type, and changes of the counts are added up.
select name as queue, 'waiting_for_approval' as state, cast(sum(entries) as bigint) as jobs,
  coalesce(cast(extract(epoch from :now - (
    select created_at from cortex.approval_request where outcome is null order by id limit 1)) as double precision), 0) as seconds
from (
  select name, entries from cortex.entry_count where scope = 'asking'
  union all
  select name, change from cortex.entry_count_change where scope = 'asking') counted
group by name
having sum(entries) > 0;

-- name: approvals [sqlite]
-- How many jobs of each queue wait for people, and since when the first of all does.
-- Differs: instants are numbers, and the counts are complete.
select name as queue, 'waiting_for_approval' as state, entries as jobs,
  coalesce((:now - (select created_at from cortex.approval_request where outcome is null order by id limit 1)) / 1000000.0, 0) as seconds
from cortex.entry_count
where scope = 'asking'
  and entries > 0;

-- name: pick_up [postgres]
-- How long a job was due before its first run began.
-- Differs: instants have a type.
select cast(extract(epoch from started_at - greatest(queued_at, run_at)) as double precision) as seconds
from cortex.job
where id = :id
  and started_at is not null;

-- name: pick_up [sqlite]
-- How long a job was due before its first run began.
-- Differs: instants are numbers.
select (started_at - max(queued_at, coalesce(run_at, queued_at))) / 1000000.0 as seconds
from cortex.job
where id = :id
  and started_at is not null;

-- name: plane
-- How many workers live, and whether the gate is open.
select (select count(*) from cortex.worker where status = 'LIVE') as workers,
  not exists (select 1 from cortex.control where scope = 'gate' and paused) as open;

-- name: slots [postgres]
-- How many schedules should have begun a slot by now, and how late the latest is.
-- Differs: instants have a type.
select count(*) as slots, cast(extract(epoch from :now - min(next_run_at)) as double precision) as seconds
from cortex.schedule
where enabled
  and next_run_at < :now - make_interval(secs => cast(:late_seconds as double precision));

-- name: slots [sqlite]
-- How many schedules should have begun a slot by now, and how late the latest is.
-- Differs: instants are numbers.
select count(*) as slots, (:now - min(next_run_at)) / 1000000.0 as seconds
from cortex.schedule
where enabled = 1
  and next_run_at < :now - cast(:late_seconds * 1000000 as integer);

-- name: waiting [postgres]
-- How many jobs wait in each queue, by state, and for how long the oldest ready one is due: of the first ten of each priority.
-- Differs: instants have a type, and changes of the counts are added up.
with recursive counted as materialized (
  select name as queue, cast(state as text) as state, cast(sum(entries) as bigint) as jobs
  from (
    select name, state, entries from cortex.entry_count where scope = 'queue'
    union all
    select name, state, change from cortex.entry_count_change where scope = 'queue') c
  group by name, state
  having sum(entries) > 0
), priority (queue, rank) as (
  select c.queue, (select min(e.rank) from cortex.queue_entry e where e.queue = c.queue and e.state = 'ready')
  from counted c
  where c.state = 'ready'
  union all
  select p.queue, (
    select min(e.rank) from cortex.queue_entry e where e.queue = p.queue and e.state = 'ready' and e.rank > p.rank)
  from priority p
  where p.rank is not null
), oldest (queue, due_at) as (
  select p.queue, min((
    select min(first.due_at) from (
      select e.due_at from cortex.queue_entry e
      where e.queue = p.queue and e.state = 'ready' and e.rank = p.rank
      order by e.position, e.created_at, e.job_id
      limit 10) first))
  from priority p
  where p.rank is not null
  group by p.queue
)
select c.queue, c.state, c.jobs, coalesce(cast(extract(epoch from :now - o.due_at) as double precision), 0) as seconds
from counted c
left join oldest o on o.queue = c.queue and c.state = 'ready';

-- name: waiting [sqlite]
-- How many jobs wait in each queue, by state, and for how long the oldest ready one is due: of the first ten of each priority.
-- Differs: instants are numbers, and the counts are complete.
with recursive counted as materialized (
  select name as queue, state, entries as jobs
  from cortex.entry_count
  where scope = 'queue' and entries > 0
), priority (queue, rank) as (
  select c.queue, (select min(e.rank) from cortex.queue_entry e where e.queue = c.queue and e.state = 'ready')
  from counted c
  where c.state = 'ready'
  union all
  select p.queue, (
    select min(e.rank) from cortex.queue_entry e where e.queue = p.queue and e.state = 'ready' and e.rank > p.rank)
  from priority p
  where p.rank is not null
), oldest (queue, due_at) as (
  select p.queue, min((
    select min(first.due_at) from (
      select e.due_at from cortex.queue_entry e
      where e.queue = p.queue and e.state = 'ready' and e.rank = p.rank
      order by e.position, e.created_at, e.job_id
      limit 10) first))
  from priority p
  where p.rank is not null
  group by p.queue
)
select c.queue, c.state, c.jobs, coalesce((:now - o.due_at) / 1000000.0, 0) as seconds
from counted c
left join oldest o on o.queue = c.queue and c.state = 'ready';
