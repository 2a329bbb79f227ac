-- name: choose [sqlite]
-- What may be claimed while pauses, limits, fair shares or reservations are in force, in order, with the room that is left for each.
-- Only on SQLite: PostgreSQL has this as a function, which takes its locks first.
-- `indexed by`: without statistics SQLite prefers the order of the whole queue, and reads it once for each agent.
with recursive running as materialized (
  select queue, job_type, tenant_id, count(*) as runs from cortex.job_run
  where status = 'RUNNING' and worker_id is not null
  group by queue, job_type, tenant_id
), reserved as materialized (
  select d.queue, d.job_id, d.expires_at from cortex.direct_reservation d
  where d.status = 'ACTIVE' and d.queue in (select value from json_each(:queues))
), open_queue as materialized (
  select q.value as name, coalesce(c.fair_share, 0) as fair,
    coalesce(c.max_running, 1000000) - (select coalesce(sum(runs), 0) from running where queue = q.value) as room
  from json_each(:queues) q
  left join cortex.control c on c.scope = 'queue' and c.name = q.value
  where c.paused is not 1 and (c.held_until is null or c.held_until <= :now)
), open_agent as materialized (
  select t.value as name,
    coalesce(c.max_running, 1000000) - (select coalesce(sum(runs), 0) from running where job_type = t.value) as room
  from json_each(:job_types) t
  left join cortex.control c on c.scope = 'agent' and c.name = t.value
  where c.paused is not 1 and (c.held_until is null or c.held_until <= :now)
), steered_tenant as materialized (
  select c.name as id, iif(c.paused, 0,
    coalesce(c.max_running, 1000000) - (select coalesce(sum(runs), 0) from running where tenant_id = c.name and queue <> 'cortex')) as room
  from cortex.control c
  where c.scope = 'tenant' and (c.paused or c.max_running is not null)
), lane as materialized (
  select q.name as queue, t.name as job_type, q.fair, min(q.room, t.room) as room
  from open_queue q
  join open_agent t on (q.name = 'cortex') = (t.name glob 'cortex.*')
  where q.room > 0 and t.room > 0 and q.name not in (select queue from reserved)
), open_lane as materialized (
  select distinct queue, fair from lane
), waiting_tenant (queue, fair, tenant_id) as (
  select o.queue, o.fair, (
    select e.tenant_id from cortex.queue_entry e
    where e.queue = o.queue and e.state = 'ready' and e.by_tenant = 1
    order by e.tenant_id limit 1)
  from open_lane o
  union all
  select w.queue, w.fair, (
    select e.tenant_id from cortex.queue_entry e
    where e.queue = w.queue and e.state = 'ready' and e.by_tenant = 1 and e.tenant_id > w.tenant_id
    order by e.tenant_id limit 1)
  from waiting_tenant w
  where w.tenant_id is not null
), head as materialized (
  select w.queue, w.fair, w.tenant_id,
    (select e.job_id from cortex.queue_entry e
      where e.queue = w.queue and e.tenant_id = w.tenant_id and e.state = 'ready' and e.by_tenant = 1
        and +e.job_type in (select name from open_agent)
        and not exists (
          select 1 from cortex.group_failure f
          cross join cortex.job j on j.id = e.job_id
          where j.group_id = f.group_id and j.attempt = 0 and j.retry_of is null)
      order by e.rank, e.position, e.created_at, e.job_id limit 1) as job_id,
    iif(w.fair, max(
      coalesce((select served from cortex.fair_turn f where f.queue = w.queue and f.tenant_id = w.tenant_id), 0),
      coalesce((select served from cortex.fair_turn f
        where f.queue = w.queue and f.tenant_id = '00000000-0000-0000-0000-000000000000'), 0)), 0) as turn
  from waiting_tenant w
  where w.tenant_id is not null and w.tenant_id not in (select id from steered_tenant where room <= 0)
), first_tenant as materialized (
  select h.queue, h.fair, h.tenant_id,
    row_number() over (partition by h.queue order by h.turn, e.rank, e.position, e.created_at, e.job_id) as place
  from head h
  cross join cortex.queue_entry e on e.job_id = h.job_id
), found (job_id, fair) as (
  select c.value, l.fair
  from lane l
  cross join json_each((
    select json_group_array(job_id) from (
      select e.job_id from cortex.queue_entry e indexed by queue_entry_ready
      where e.queue = l.queue and e.job_type = l.job_type and e.state = 'ready' and e.by_tenant = 0
        and (e.queue = 'cortex' or e.tenant_id not in (select id from steered_tenant where room <= 0))
        and not exists (
          select 1 from cortex.group_failure f
          cross join cortex.job j on j.id = e.job_id
          where j.group_id = f.group_id and j.attempt = 0 and j.retry_of is null)
      order by e.rank, e.position, e.created_at, e.job_id
      limit :limit))) c
  union all
  select c.value, t.fair
  from first_tenant t
  cross join json_each((
    select json_group_array(job_id) from (
      select e.job_id from cortex.queue_entry e
      where e.queue = t.queue and e.tenant_id = t.tenant_id and e.state = 'ready' and e.by_tenant = 1
        and +e.job_type in (select name from open_agent)
        and not exists (
          select 1 from cortex.group_failure f
          cross join cortex.job j on j.id = e.job_id
          where j.group_id = f.group_id and j.attempt = 0 and j.retry_of is null)
      order by e.rank, e.position, e.created_at, e.job_id
      limit (select 1 + 4 * :limit / count(*) from first_tenant)))) c
  where t.place <= :limit and t.fair
  union all
  select c.value, t.fair
  from first_tenant t
  cross join json_each((
    select json_group_array(job_id) from (
      select e.job_id from cortex.queue_entry e
      where e.queue = t.queue and e.tenant_id = t.tenant_id and e.state = 'ready' and e.by_tenant = 1
        and +e.job_type in (select name from open_agent)
        and not exists (
          select 1 from cortex.group_failure f
          cross join cortex.job j on j.id = e.job_id
          where j.group_id = f.group_id and j.attempt = 0 and j.retry_of is null)
      order by e.rank, e.position, e.created_at, e.job_id
      limit :limit))) c
  where t.place <= :limit and not t.fair
), candidate as materialized (
  select f.fair, e.job_id, e.tenant_id, e.queue, e.job_type, e.rank, e.position, e.created_at
  from found f
  cross join cortex.queue_entry e on e.job_id = f.job_id
), turned as (
  select c.*,
    row_number() over (partition by c.queue, c.tenant_id order by c.rank, c.position, c.created_at, c.job_id)
    + max(
      coalesce((select served from cortex.fair_turn f where f.queue = c.queue and f.tenant_id = c.tenant_id), 0),
      coalesce((select served from cortex.fair_turn f
        where f.queue = c.queue and f.tenant_id = '00000000-0000-0000-0000-000000000000'), 0)) as turn
  from candidate c
  where c.fair
), occupant as (
  select t.*, row_number() over (partition by t.queue order by t.turn, t.rank, t.position, t.created_at, t.job_id) as place
  from turned t
), seat as materialized (
  select queue, rank, position, created_at, job_id as tie,
    row_number() over (partition by queue order by rank, position, created_at, job_id) as place
  from turned
), ordered as (
  select job_id, queue, job_type, tenant_id, rank, position, created_at, job_id as tie from candidate where not fair
  union all
  select o.job_id, o.queue, o.job_type, o.tenant_id, s.rank, s.position, s.created_at, s.tie
  from occupant o
  join seat s on s.queue = o.queue and s.place = o.place
), direct as (
  select e.job_id, e.queue, e.job_type, e.tenant_id
  from reserved r
  join open_queue q on q.name = r.queue
  join cortex.queue_entry e on e.job_id = r.job_id
  join open_agent t on t.name = e.job_type
  where e.state = 'ready' and r.expires_at > :now and r.queue not in (select queue from running)
), first_of_all as materialized (
  select job_id, queue, job_type, tenant_id, 0 as kind, 0 as rank, 0 as position, 0 as created_at, '' as tie from direct
  union all
  select job_id, queue, job_type, tenant_id, 1, rank, position, created_at, tie from ordered
  order by kind, rank, position, created_at, tie
  limit 10 * :limit
)
select f.job_id, f.queue, f.job_type, f.tenant_id, q.room as queue_room, t.room as agent_room, s.room as tenant_room
from first_of_all f
join open_queue q on q.name = f.queue
join open_agent t on t.name = f.job_type
left join steered_tenant s on s.id = f.tenant_id and f.queue <> 'cortex'
order by f.kind, f.rank, f.position, f.created_at, f.tie;

-- name: claim [postgres]
-- Claims ready jobs for one worker, in queue order, as many as run ids are given; beyond :free none that belongs to a group.
-- Differs: a function takes the locks first and then reads.
select *
from cortex.claim(cast(:worker_id as uuid), :actor, cast(:queues as text[]), cast(:job_types as text[]),
  cast(:run_ids as uuid[]), cast(:free as int));

-- name: claim [sqlite]
-- Claims ready jobs for one worker, in queue order, as many as run ids are given; beyond :free none that belongs to a group.
-- Differs: with one writer there is nothing to lock or skip. Each queue and agent is read through its own part of the index.
-- The first entry of each says which of them can hold the best.
with pair (queue, job_type) as (
  select q.value, t.value from json_each(:queues) q cross join json_each(:job_types) t
  where (q.value = 'cortex') = (t.value glob 'cortex.*')
), head (queue, job_type, job_id) as materialized (
  select pair.queue, pair.job_type, (
    select e.job_id from cortex.queue_entry e
    where e.queue = pair.queue and e.job_type = pair.job_type and e.state = 'ready' and e.by_tenant = 0
    order by e.rank, e.position, e.created_at, e.job_id
    limit 1)
  from pair
), lane (queue, job_type) as materialized (
  select head.queue, head.job_type
  from head
  cross join cortex.queue_entry e on e.job_id = head.job_id
  order by e.rank, e.position, e.created_at, e.job_id
  limit json_array_length(:run_ids)
), candidate (job_id) as (
  select c.value
  from lane
  cross join json_each((
    select json_group_array(job_id) from (
      select e.job_id from cortex.queue_entry e
      where e.queue = lane.queue and e.job_type = lane.job_type and e.state = 'ready' and e.by_tenant = 0
        and not exists (
          select 1 from cortex.group_failure f
          cross join cortex.job j on j.id = e.job_id
          where j.group_id = f.group_id and j.attempt = 0 and j.retry_of is null)
      order by e.rank, e.position, e.created_at, e.job_id
      limit json_array_length(:run_ids)))) c
), placed as (
  select e.job_id,
    row_number() over in_order as place
  from candidate c
  cross join cortex.queue_entry e on e.job_id = c.job_id
  window in_order as (order by e.rank, e.position, e.created_at, e.job_id)
), run (place, id) as materialized (
  select key + 1, value from json_each(:run_ids)
), taken as materialized (
  select p.job_id, r.id as run_id, p.place
  from placed p
  join run r on r.place = p.place
  where exists (select 1 from cortex.worker where id = :worker_id and status = 'LIVE')
)
update cortex.job as j
set status = 'RUNNING',
  run_id = coalesce(j.run_id, t.run_id),
  worker_id = :worker_id,
  worker_job_id = null,
  attempt = j.attempt + (j.run_id is null),
  next_retry_at = null,
  wait_reason = null,
  started_at = coalesce(j.started_at, max(:now, j.updated_at)),
  updated_at = max(:now, j.updated_at),
  revision = j.revision + (j.run_id is null),
  cause = 'claim',
  actor = :actor,
  note = iif(j.run_id is null, null, json_object('claimed_as', t.run_id))
from taken t
where j.id = t.job_id
  and (t.place <= :free or j.group_id is null)
  and (j.status in ('PENDING', 'RETRY') or (j.status = 'RUNNING' and j.worker_id is null))
  and (j.deadline_at is null or j.deadline_at > :now or j.cancel_requested_at is not null)
returning id as job_id, run_id, job_type, queue, tenant_id, payload, attempt, retry_count, max_retries, crash_count,
  retry_policy, timeout_seconds, failed_runs, cleanup_seconds, cancel_request,
  (deadline_at - :now) / 1000000.0 as seconds_left,
  checkpoint is not null as resumes,
  effect_root, coalesce(note ->> 'claimed_as', run_id) as claimed_as;

-- name: claim_chosen [sqlite]
-- Claims for one worker the jobs that were chosen for it, with the run id of each.
-- Only on SQLite: PostgreSQL does this inside its function; here choosing and claiming share the writer's transaction.
with taken (job_id, run_id, place) as materialized (
  select value ->> 0, value ->> 1, key + 1 from json_each(:chosen)
  where exists (select 1 from cortex.worker where id = :worker_id and status = 'LIVE')
)
update cortex.job as j
set status = 'RUNNING',
  run_id = coalesce(j.run_id, t.run_id),
  worker_id = :worker_id,
  worker_job_id = null,
  attempt = j.attempt + (j.run_id is null),
  next_retry_at = null,
  wait_reason = null,
  started_at = coalesce(j.started_at, max(:now, j.updated_at)),
  updated_at = max(:now, j.updated_at),
  revision = j.revision + (j.run_id is null),
  cause = 'claim',
  actor = :actor,
  note = iif(j.run_id is null, null, json_object('claimed_as', t.run_id))
from taken t
where j.id = t.job_id
  and (t.place <= :free or j.group_id is null)
  and (j.status in ('PENDING', 'RETRY') or (j.status = 'RUNNING' and j.worker_id is null))
  and (j.deadline_at is null or j.deadline_at > :now or j.cancel_requested_at is not null)
returning id as job_id, run_id, job_type, queue, tenant_id, payload, attempt, retry_count, max_retries, crash_count,
  retry_policy, timeout_seconds, failed_runs, cleanup_seconds, cancel_request,
  (deadline_at - :now) / 1000000.0 as seconds_left,
  checkpoint is not null as resumes,
  effect_root, coalesce(note ->> 'claimed_as', run_id) as claimed_as;

-- name: claim_on [postgres]
-- Claims ready jobs for one worker as queue/claim does, among those that come after the heads of their queues.
-- Only on PostgreSQL: elsewhere entries that were claimed leave the index at once, so a claim may always begin at its start.
select *
from cortex.claim(cast(:worker_id as uuid), :actor, cast(:queues as text[]), cast(:job_types as text[]),
  cast(:run_ids as uuid[]), cast(:free as int), cast(:heads as jsonb));

-- name: count_turns [sqlite]
-- In a queue that shares fairly, a tenant that was served steps back, and the clock of the queue goes on.
-- Only on SQLite: PostgreSQL has this as a function.
insert into cortex.fair_turn (queue, tenant_id, served)
select value ->> 'queue', value ->> 'tenant_id', value ->> 'served' from json_each(:turns)
where true
on conflict (queue, tenant_id) do update set served = max(served, excluded.served);

-- name: depths [postgres]
-- How many entries each queue holds, by state; `changes` of them have not been folded yet.
-- Differs: writers add changes here, so that no two of them meet.
select name as queue, cast(state as text) as state, cast(sum(entries) as bigint) as entries, sum(changes) as changes
from (
  select name, state, entries, 0 as changes from cortex.entry_count where scope = 'queue'
  union all
  select name, state, change, 1 from cortex.entry_count_change where scope = 'queue') counted
group by name, state
order by name, state;

-- name: depths [sqlite]
-- How many entries each queue holds, by state.
-- Differs: with one writer there are no changes to fold.
select name as queue, state, entries, 0 as changes
from cortex.entry_count
where scope = 'queue'
order by name, state;

-- name: first_ready [sqlite]
-- Of the first ready entries of all queues, those of these queues for these agents, in order.
-- Only on SQLite: PostgreSQL does this inside its function.
select job_id, queue, tenant_id
from (
  select job_id, queue, job_type, tenant_id
  from cortex.queue_entry
  where state = 'ready'
    and by_tenant = 0
  order by rank, position, created_at, job_id
  limit :look)
where queue in (select value from json_each(:queues))
  and job_type in (select value from json_each(:job_types))
  and (queue = 'cortex') = (job_type glob 'cortex.*')
limit :limit;

-- name: first_ready_of_queue [sqlite]
-- Of the first ready entries of one queue, those for these agents, in order.
-- Only on SQLite: PostgreSQL does this inside its function.
select job_id, queue, tenant_id
from (
  select job_id, queue, job_type, tenant_id
  from cortex.queue_entry
  where queue = :queue
    and state = 'ready'
    and by_tenant = 0
  order by rank, position, created_at, job_id
  limit :look)
where job_type in (select value from json_each(:job_types))
  and (queue = 'cortex') = (job_type glob 'cortex.*')
limit :limit;

-- name: is_steered [sqlite]
-- Whether a claim from these queues for these agents is steered, the gate is closed, or members of groups must not begin.
-- Only on SQLite: PostgreSQL asks this inside its function.
-- Pauses, limits, fair shares and reservations of others cost it nothing.
select
  exists (select 1 from cortex.control where scope = 'gate' and paused) as closed,
  exists (
    select 1 from cortex.control
    where (paused or max_running is not null or fair_share or held_until > :now)
      and ((scope = 'queue' and name in (select value from json_each(:queues)))
        or (scope = 'agent' and name in (select value from json_each(:job_types)))
        or scope = 'tenant'))
    or exists (
      select 1 from cortex.direct_reservation where status = 'ACTIVE' and queue in (select value from json_each(:queues)))
    or exists (
      select 1 from cortex.queue_entry
      where state = 'ready' and by_tenant = 1 and queue in (select value from json_each(:queues))) as steered,
  exists (select 1 from cortex.group_failure) as stopping;

-- name: next_due [postgres]
-- In how many seconds the next entry falls due; no row when none waits.
-- Differs: how instants are subtracted.
select extract(epoch from due_at - cortex.now())::double precision as seconds
from cortex.queue_entry
where state = 'later'
order by due_at
limit 1;

-- name: next_due [sqlite]
-- In how many seconds the next entry falls due; no row when none waits.
-- Differs: how instants are subtracted.
select (due_at - :now) / 1000000.0 as seconds
from cortex.queue_entry
where state = 'later'
order by due_at
limit 1;

-- name: place
-- Where a waiting job stands: its entry, and how many ready ones of its queue are before it, counted up to a thousand.
select e.state, e.due_at, e.serial_key, e.tenant_id,
  (select count(*) from (
    select 1 from cortex.queue_entry b
    where b.queue = e.queue and b.state = 'ready'
      and (b.rank, b.position, b.created_at, b.job_id) < (e.rank, e.position, e.created_at, e.job_id)
    limit 1000) before) as ahead,
  (select r.job_id from cortex.open_run r
    where r.tenant_id = e.tenant_id and r.serial_key = e.serial_key and r.worker_id is not null
    limit 1) as key_held_by,
  (select k.job_id from cortex.queue_entry k
    where k.tenant_id = e.tenant_id and k.serial_key = e.serial_key and k.state = 'ready' limit 1) as key_next
from cortex.queue_entry e
where e.job_id = :id;

-- name: promote_due [postgres]
-- Makes ready what has fallen due, at most :limit entries, and returns how many.
-- Differs: a function settles the serial keys under their locks.
select cortex.promote_due(cast(:limit as int)) as promoted;

-- name: promote_due [sqlite]
-- Makes ready what has fallen due, at most :limit entries, and returns one row for each.
-- Differs: a trigger settles the serial keys.
update cortex.queue_entry
set state = iif(serial_key is null, 'ready', 'blocked')
where state = 'later'
  and job_id in (
    select job_id from cortex.queue_entry
    where state = 'later' and due_at <= :now
    order by due_at
    limit :limit)
returning 1 as promoted;

-- name: ready_beyond [sqlite]
-- Whether more ready entries wait than were looked at.
-- Only on SQLite: PostgreSQL does this inside its function.
select 1 as more
from cortex.queue_entry
where state = 'ready'
  and by_tenant = 0
limit 1 offset :look;

-- name: ready_beyond_in_queue [sqlite]
-- Whether more ready entries wait in one queue than were looked at.
-- Only on SQLite: PostgreSQL does this inside its function.
select 1 as more
from cortex.queue_entry
where queue = :queue
  and state = 'ready'
  and by_tenant = 0
limit 1 offset :look;

-- name: running
-- How many jobs run on a worker, by queue, agent and tenant.
select queue, job_type, tenant_id, count(*) as runs
from cortex.open_run
where worker_id is not null
group by queue, job_type, tenant_id;

-- name: set_aside [sqlite]
-- Makes a ready entry wait for a minute.
-- Only on SQLite: PostgreSQL does this inside its function.
update cortex.queue_entry
set state = 'later', due_at = :now + 60000000
where job_id = :id and state = 'ready';

-- name: set_aside_unstartable [postgres]
-- Of the next jobs to claim, makes those wait for a minute that the database refuses to start; returns them.
-- Only on PostgreSQL: a function tries each in a transaction of its own within this one, and undoes that.
select job_id from cortex.set_aside_unstartable(cast(:worker_id as uuid), cast(:queues as text[]), cast(:job_types as text[]), :limit) as job_id;

-- name: settle_new [postgres]
-- Settles the serial keys of what was just submitted, and others that were left for later since this session looked last.
-- Differs: a submission takes no lock of a key, so it cannot settle it itself.
select cortex.settle_marked_keys(1000, true);

-- name: settle_new [sqlite]
-- Settles the serial keys of what was just submitted.
-- Differs: with one writer a submission has settled them itself.
select 1 as settled where false;

-- name: settle_stuck [postgres]
-- Settles serial keys that were left for later: those of submissions, and those whose lock somebody else held.
-- Differs: here it can happen, because settling never waits for a lock.
select cortex.settle_marked_keys(1000);

-- name: settle_stuck [sqlite]
-- Settles serial keys that nobody holds though jobs wait for them: their holder's transaction was undone at a bad moment.
-- Differs: with one writer that cannot happen, so there is nothing to settle.
select 1 as settled where false;

-- name: turns [sqlite]
-- The turns of the tenants of queues that share fairly.
-- Only on SQLite: PostgreSQL reads them inside its function.
select f.queue, f.tenant_id, f.served
from cortex.control c
join cortex.fair_turn f on f.queue = c.name
where c.scope = 'queue' and c.fair_share and c.name in (select value from json_each(:queues))
union all
select c.name, '', 0 from cortex.control c
where c.scope = 'queue' and c.fair_share and c.name in (select value from json_each(:queues));
