-- name: beat [postgres]
-- Renews the lease of a worker that is still LIVE. No row: it was declared LOST and must stop its jobs.
-- Differs: a function notes the beat beside the worker's row where somebody else has locked that.
select draining from cortex.beat(cast(:id as uuid)) as draining where draining is not null;

-- name: beat [sqlite]
-- Renews the lease of a worker that is still LIVE. No row: it was declared LOST and must stop its jobs.
-- Differs: how a lease is added to the time.
update cortex.worker
set heartbeat_at = :now, lease_until = :now + cast(lease_seconds * 1000000 as integer)
where id = :id and status = 'LIVE'
returning drain_asked_at is not null as draining;

-- name: close_lost [postgres]
-- Ends the rescue of lost workers that have no open run left.
-- Differs: a function takes the locks first and then reads, because a claim may be under way.
select cortex.close_lost();

-- name: close_lost [sqlite]
-- Ends the rescue of lost workers that have no open run left.
-- Differs: with one writer no claim can be under way.
update cortex.worker
set ended_at = :now
where status = 'LOST' and ended_at is null
  and not exists (select 1 from cortex.job_run r where r.worker_id = worker.id and r.status = 'RUNNING');

-- name: declare_lost [postgres]
-- Declares LOST every worker whose lease has run out. One way, and on the row itself: a heartbeat that came first wins.
-- Differs: a function takes the locks first, so that a beat that is noted beside a locked row is never overlooked.
select id, name from cortex.declare_lost(cast(:id as uuid));

-- name: declare_lost [sqlite]
-- Declares LOST every worker whose lease has run out. One way, and on the row itself: a heartbeat that came first wins.
-- Differs: with one writer there is nothing to lock.
update cortex.worker
set status = 'LOST'
where status = 'LIVE' and lease_until < :now and id <> :id
returning id, name;

-- name: drain
-- Asks a worker that lives to finish what it has and leave. No row: it does not live, or was asked already.
update cortex.worker
set drain_asked_at = :now, drain_asked_by = :actor, drain_reason = :reason
where id = :id and status = 'LIVE' and drain_asked_at is null
returning id;

-- name: give_up [postgres]
-- A worker that cannot trust its own lease any more gives it up, so that others rescue its runs at once.
-- Differs: where somebody has locked its row, it is left for the next look, and its lease runs out.
update cortex.worker
set status = 'LOST'
where id = (select w.id from cortex.worker w where w.id = cast(:id as uuid) and w.status = 'LIVE' for no key update skip locked)
  and status = 'LIVE'
returning id;

-- name: give_up [sqlite]
-- A worker that cannot trust its own lease any more gives it up, so that others rescue its runs at once.
-- Differs: with one writer there is nothing to lock.
update cortex.worker
set status = 'LOST'
where id = :id and status = 'LIVE'
returning id;

-- name: leave [postgres]
-- A worker leaves in order. No row: it is not LIVE any more, or still has an open run, which somebody must rescue.
-- Differs: a function takes the lock first and then reads, because a claim may be under way.
select 1 where cortex.leave(cast(:id as uuid));

-- name: leave [sqlite]
-- A worker leaves in order. No row: it is not LIVE any more, or still has an open run, which somebody must rescue.
-- Differs: with one writer no claim can be under way.
update cortex.worker
set status = 'STOPPED', ended_at = :now
where id = :id and status = 'LIVE'
  and not exists (select 1 from cortex.job_run r where r.worker_id = worker.id and r.status = 'RUNNING')
returning id;

-- name: list
-- Workers that live, and the latest that do not.
select id, name, status, queues, job_types, concurrency, started_at, heartbeat_at, lease_until, ended_at,
  drain_asked_at, drain_asked_by, drain_reason
from cortex.worker
order by (status = 'LIVE') desc, started_at desc
limit :limit;

-- name: now
-- The time, as the store has it.
select :now as at;

-- name: processes
-- The other workers that live on one machine, with their processes.
select id, name, process
from cortex.worker
where status = 'LIVE' and id <> :id and substr(process, 1, length(cast(:here as text))) = :here;

-- name: register [postgres]
-- A worker starts, under an id of its own.
-- Differs: how a lease is added to the time.
insert into cortex.worker (id, name, queues, job_types, concurrency, lease_seconds, process, lease_until)
values (cast(:id as uuid), :name, cast(:queues as jsonb), cast(:job_types as jsonb), :concurrency, :lease_seconds, :process,
  cortex.now() + cast(:lease_seconds as double precision) * interval '1 second')
on conflict (id) do nothing;

-- name: register [sqlite]
-- A worker starts, under an id of its own.
-- Differs: how a lease is added to the time.
insert into cortex.worker
  (id, name, queues, job_types, concurrency, lease_seconds, process, started_at, heartbeat_at, lease_until)
values (:id, :name, :queues, :job_types, :concurrency, :lease_seconds, :process, :now, :now,
  :now + cast(:lease_seconds * 1000000 as integer))
on conflict (id) do nothing;

-- name: tell_room [postgres]
-- Notes whether a worker has a free slot and finds nothing to claim. No row: it is not LIVE any more, or not now.
-- Differs: where somebody has locked its row, it is left for the next time; the worker must not wait with its claims.
update cortex.worker
set has_room = :has_room
where id = (select w.id from cortex.worker w where w.id = cast(:id as uuid) and w.status = 'LIVE' for no key update skip locked)
returning id;

-- name: tell_room [sqlite]
-- Notes whether a worker has a free slot and finds nothing to claim. No row: it is not LIVE any more.
-- Differs: SQLite has one writer, and no locked rows.
update cortex.worker
set has_room = :has_room
where id = :id and status = 'LIVE'
returning id;

-- name: with_room
-- Other workers that live, have a free slot and find nothing to claim.
select queues, job_types
from cortex.worker
where status = 'LIVE' and has_room and id <> :id
limit 20;
