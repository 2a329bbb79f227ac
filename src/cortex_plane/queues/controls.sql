-- name: request_lanes
-- Requests that waiting jobs are moved into or out of tenant lanes.
insert into cortex.lane_pass (id) values (1)
on conflict (id) do update set again = true;

-- name: get
-- Returns one control.
select scope, name, paused, paused_by, paused_at, pause_reason, max_running, fair_share, budget_cents, on_exhausted, held_until, hold_reason, updated_by, updated_at
from cortex.control
where scope = :scope and name = :name;

-- name: continue_lanes
-- Stores where the next page of waiting jobs begins.
update cortex.lane_pass set after = :after, again = :again where id = 1;

-- name: hold [postgres]
-- Holds an agent or a queue for a while, if the run that asks for it is still open. The longest hold stays.
-- Differs: how instants are added, and which function takes the later of two.
insert into cortex.control (scope, name, held_until, hold_reason, updated_by, updated_at)
select cast(:scope as text), cast(:name as text), :now + cast(:seconds as double precision) * interval '1 second',
  cast(:reason as text), cast(:actor as text), :now
from cortex.job
where id = :job_id and run_id = :run_id
on conflict (scope, name) do update
set held_until = greatest(control.held_until, excluded.held_until),
  hold_reason = excluded.hold_reason,
  updated_by = excluded.updated_by,
  updated_at = excluded.updated_at;

-- name: hold [sqlite]
-- Holds an agent or a queue for a while, if the run that asks for it is still open. The longest hold stays.
-- Differs: how instants are added, and which function takes the later of two.
insert into cortex.control (scope, name, held_until, hold_reason, updated_by, updated_at)
select :scope, :name, :now + cast(round(1000000 * :seconds) as integer), :reason, :actor, :now
from cortex.job
where id = :job_id and run_id = :run_id
on conflict (scope, name) do update
set held_until = max(coalesce(control.held_until, 0), excluded.held_until),
  hold_reason = excluded.hold_reason,
  updated_by = excluded.updated_by,
  updated_at = excluded.updated_at;

-- name: lane_pass [postgres]
-- Returns and locks the progress of the move between lanes. No row: nothing to move, or another worker moves.
-- Differs: a row can be locked here.
select after, again from cortex.lane_pass where id = 1 for update skip locked;

-- name: lane_pass [sqlite]
-- Returns the progress of the move between lanes. No row: nothing to move.
-- Differs: with one writer there is nothing to lock.
select after, again from cortex.lane_pass where id = 1;

-- name: lanes_are_given
-- Ends the move between lanes.
delete from cortex.lane_pass where id = 1;

-- name: lift_holds
-- Removes ended holds.
update cortex.control set held_until = null, hold_reason = null where held_until <= :now;

-- name: list
-- Returns all controls.
select scope, name, paused, paused_by, paused_at, pause_reason, max_running, fair_share, budget_cents, on_exhausted, held_until, hold_reason, updated_by, updated_at
from cortex.control
order by scope, name;

-- name: lock [postgres]
-- Waits for running claims, and blocks new ones until the end of this transaction.
-- Differs: SQLite has one writer.
select pg_advisory_xact_lock(1129270868, 0);

-- name: lock [sqlite]
-- No-op: there is one writer.
-- Differs: PostgreSQL has many writers.
select 1 where false;

-- name: move_lanes [postgres]
-- Of one page of waiting jobs, those whose tenant or queue is steered go into lanes of their own, the others out of them.
-- Differs: what is being claimed is passed over; if it comes back, its trigger gives it its lane.
update cortex.queue_entry e
set by_tenant = not e.by_tenant
where e.job_id = any (array(
  select w.job_id from cortex.queue_entry w
  where w.job_id > cast(:after as uuid) and w.job_id <= cast(:last as uuid)
    and w.by_tenant <> cortex.has_own_lane(w.queue, w.tenant_id)
  order by w.job_id
  for update skip locked));

-- name: move_lanes [sqlite]
-- Of one page of waiting jobs, those whose tenant or queue is steered go into lanes of their own, the others out of them.
-- Differs: with one writer there is nothing to lock.
update cortex.queue_entry as e
set by_tenant = not e.by_tenant
where e.job_id > :after and e.job_id <= :last
  and e.by_tenant <> (e.queue <> 'cortex' and exists (
    select 1 from cortex.control c
    where (c.scope = 'tenant' and c.name = e.tenant_id and (c.paused or c.max_running is not null))
      or (c.scope = 'queue' and c.name = e.queue and c.fair_share)));

-- name: next_page
-- The last of the next page of waiting jobs; no row when there is none.
select job_id from (
  select job_id from cortex.queue_entry
  where job_id > :after
  order by job_id
  limit :limit) page
order by job_id desc
limit 1;

-- name: past_holds
-- Whether a hold has ended that is still written down.
select 1 from cortex.control where held_until <= :now limit 1;

-- name: put [postgres]
-- Inserts or replaces a control.
-- Differs: PostgreSQL needs the types of nullable parameters.
insert into cortex.control
  (scope, name, paused, paused_by, paused_at, pause_reason, max_running, fair_share, budget_cents, on_exhausted, updated_by, updated_at)
values (:scope, :name, :paused, cast(:paused_by as text), case when :paused then :now end, cast(:pause_reason as text),
  cast(:max_running as int), :fair_share, cast(:budget_cents as bigint), cast(:on_exhausted as text), cast(:updated_by as text), :now)
on conflict (scope, name) do update
set paused = excluded.paused,
  paused_by = excluded.paused_by,
  paused_at = case when excluded.paused then coalesce(control.paused_at, excluded.paused_at) end,
  pause_reason = excluded.pause_reason,
  max_running = excluded.max_running,
  fair_share = excluded.fair_share,
  budget_cents = excluded.budget_cents,
  on_exhausted = excluded.on_exhausted,
  held_until = case when :lifts_hold then null else control.held_until end,
  hold_reason = case when :lifts_hold then null else control.hold_reason end,
  updated_by = excluded.updated_by,
  updated_at = excluded.updated_at;

-- name: put [sqlite]
-- Inserts or replaces a control.
-- Differs: PostgreSQL needs the types of nullable parameters.
insert into cortex.control
  (scope, name, paused, paused_by, paused_at, pause_reason, max_running, fair_share, budget_cents, on_exhausted, updated_by, updated_at)
values (:scope, :name, :paused, :paused_by, iif(:paused, :now, null), :pause_reason, :max_running, :fair_share, :budget_cents,
  :on_exhausted, :updated_by, :now)
on conflict (scope, name) do update
set paused = excluded.paused,
  paused_by = excluded.paused_by,
  paused_at = case when excluded.paused then coalesce(control.paused_at, excluded.paused_at) end,
  pause_reason = excluded.pause_reason,
  max_running = excluded.max_running,
  fair_share = excluded.fair_share,
  budget_cents = excluded.budget_cents,
  on_exhausted = excluded.on_exhausted,
  held_until = case when :lifts_hold then null else control.held_until end,
  hold_reason = case when :lifts_hold then null else control.hold_reason end,
  updated_by = excluded.updated_by,
  updated_at = excluded.updated_at;

-- name: remove
-- Deletes a control.
delete from cortex.control where scope = :scope and name = :name;

-- name: sweep
-- Deletes empty controls.
delete from cortex.control
where not paused and max_running is null and not fair_share and budget_cents is null and held_until is null;

-- name: tidy_lanes [postgres]
-- Removes what the jobs that were moved have left in the lanes they came from: every claim would step over it until autovacuum comes.
-- Differs: SQLite leaves nothing behind.
vacuum (skip_locked, analyze false) cortex.queue_entry;

-- name: tidy_lanes [sqlite]
-- Nothing: an entry that is moved leaves nothing behind.
-- Differs: PostgreSQL keeps old versions of rows.
select 1 where false;

-- name: wake [postgres]
-- Wakes all workers.
-- Differs: on SQLite any commit does.
select pg_notify('cortex', 'all:');

-- name: wake [sqlite]
-- No-op: any commit wakes all workers.
-- Differs: PostgreSQL has to say so.
select 1 where false;
