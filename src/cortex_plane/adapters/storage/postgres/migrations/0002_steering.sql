-- Steering: who decides what runs when, and what the claim makes of it.
--
-- Advisory locks of the class 1129270868:
--   0   shared by every claim, exclusive for whoever changes a control or reserves a queue: no claim begins after that returned
--   1   held by a claim while limits, shares or reservations are in force: take the lock first, then count
-- Lock order everywhere: these, worker, queue entry, job, run.

create type cortex.reservation_status as enum ('ACTIVE', 'RELEASED', 'EXPIRED');

create table cortex.direct_reservation (
  id uuid primary key,
  queue text not null check (queue <> ''),
  job_id uuid not null unique,
  reserved_by text not null,
  reserved_at timestamptz not null default cortex.now(),
  expires_at timestamptz not null,
  status cortex.reservation_status not null default 'ACTIVE',
  ended_at timestamptz,
  constraint ended_at_exactly_when_over check ((status = 'ACTIVE') = (ended_at is null))
);
create unique index direct_reservation_one_active on cortex.direct_reservation (queue) where status = 'ACTIVE';

-- Which job holds a key. The last one that was submitted with it.
create table cortex.job_key (
  tenant_id uuid not null,
  job_key text not null,
  job_id uuid not null,
  primary key (tenant_id, job_key)
);

-- How often each tenant had its turn in a queue that shares fairly. The tenant of zeros is the clock of the queue.
create table cortex.fair_turn (
  queue text not null,
  tenant_id uuid not null,
  served bigint not null,
  primary key (queue, tenant_id)
);

-- The tenants that have ready jobs in lanes of their own, found by jumping from one to the next in the index.
create function cortex.tenants_waiting(_queue text, _job_type text) returns setof uuid language plpgsql stable as $$
declare
  _tenant uuid;
begin
  select tenant_id into _tenant from cortex.queue_entry
    where queue = _queue and job_type = _job_type and state = 'ready' and by_tenant
    order by tenant_id limit 1;
  while _tenant is not null loop
    return next _tenant;
    select min(tenant_id::text)::uuid into _tenant from (
      select tenant_id from cortex.queue_entry
      where queue = _queue and job_type = _job_type and state = 'ready' and by_tenant and tenant_id > _tenant
      order by tenant_id limit 1) following;
  end loop;
end $$;

-- What to claim while pauses, limits, fair shares or reservations are in force, in order.
create function cortex.choose(_queues text[], _job_types text[], _limit int) returns uuid[] language plpgsql
  set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
  _chosen uuid[];
begin
  perform pg_advisory_xact_lock(1129270868, 1);
  perform cortex.give_lanes(_queues, _job_types);
  with running as materialized (
    select queue, job_type, tenant_id, count(*) as runs from cortex.job_run
    where status = 'RUNNING' and worker_id is not null
    group by queue, job_type, tenant_id
  ), reserved as materialized (
    select d.queue, d.job_id, d.expires_at from cortex.direct_reservation d where d.status = 'ACTIVE' and d.queue = any (_queues)
  ), open_queue as materialized (
    select q.name, coalesce(c.fair_share, false) as fair,
      coalesce(c.max_running, 1000000) - (select coalesce(sum(runs), 0) from running where queue = q.name) as room
    from unnest(_queues) as q(name)
    left join cortex.control c on c.scope = 'queue' and c.name = q.name
    where c.paused is not true
  ), open_agent as materialized (
    select t.name, coalesce(c.max_running, 1000000) - (select coalesce(sum(runs), 0) from running where job_type = t.name) as room
    from unnest(_job_types) as t(name)
    left join cortex.control c on c.scope = 'agent' and c.name = t.name
    where c.paused is not true
  ), steered_tenant as materialized (
    select c.name::uuid as id, case when c.paused then 0
      else coalesce(c.max_running, 1000000) - (select coalesce(sum(runs), 0) from running where tenant_id = c.name::uuid and queue <> 'cortex') end as room
    from cortex.control c where c.scope = 'tenant' and (c.paused or c.max_running is not null)
  ), lane as materialized (
    select q.name as queue, t.name as job_type, q.fair, least(q.room, t.room) as room
    from open_queue q
    join open_agent t on (q.name = 'cortex') = starts_with(t.name, 'cortex.')
    where q.room > 0 and t.room > 0 and not exists (select 1 from reserved r where r.queue = q.name)
  ), candidate as materialized (
    select e.job_id, e.tenant_id, l.queue, l.job_type, l.fair, e.rank, e.position, e.created_at
    from lane l
    cross join lateral (
      select job_id, tenant_id, rank, position, created_at from cortex.queue_entry
      where queue = l.queue and job_type = l.job_type and state = 'ready' and not by_tenant
      order by rank, position, created_at, job_id
      limit least(_limit, l.room)) e
    where l.queue = 'cortex' or not exists (select 1 from steered_tenant s where s.id = e.tenant_id)
    union all
    select e.job_id, t.id, l.queue, l.job_type, l.fair, e.rank, e.position, e.created_at
    from lane l
    cross join lateral cortex.tenants_waiting(l.queue, l.job_type) as t(id)
    left join steered_tenant s on s.id = t.id
    cross join lateral (
      select job_id, rank, position, created_at from cortex.queue_entry
      where queue = l.queue and job_type = l.job_type and tenant_id = t.id and state = 'ready' and by_tenant
      order by rank, position, created_at, job_id
      limit least(_limit, l.room, coalesce(s.room, 1000000))) e
    where coalesce(s.room, 1) > 0
  ), turned as (
    select c.*,
      case when c.fair then
        row_number() over (partition by c.queue, c.tenant_id order by c.rank, c.position, c.created_at, c.job_id)
        + greatest(
          (select served from cortex.fair_turn f where f.queue = c.queue and f.tenant_id = c.tenant_id),
          (select served from cortex.fair_turn f where f.queue = c.queue and f.tenant_id = '00000000-0000-0000-0000-000000000000'),
          0)
      else 0 end as turn
    from candidate c
  ), occupant as (
    select t.*,
      row_number() over (partition by t.queue order by t.turn, t.rank, t.position, t.created_at, t.job_id) as place
    from turned t
  ), seat as (
    select queue, rank, position, created_at, job_id as tie,
      row_number() over (partition by queue order by rank, position, created_at, job_id) as place
    from candidate
  ), seated as (
    select o.job_id, o.queue, o.job_type, o.tenant_id, s.rank, s.position, s.created_at, s.tie, o.place as in_queue
    from occupant o join seat s on s.queue = o.queue and s.place = o.place
  ), admitted as (
    select s.*,
      row_number() over (partition by s.job_type order by s.rank, s.position, s.created_at, s.tie) as in_agent,
      row_number() over (partition by s.tenant_id order by s.rank, s.position, s.created_at, s.tie) as in_tenant
    from seated s
  ), ordered as (
    select a.job_id, a.rank, a.position, a.created_at, a.tie
    from admitted a
    join open_queue q on q.name = a.queue
    join open_agent t on t.name = a.job_type
    left join steered_tenant s on s.id = a.tenant_id
    where a.in_queue <= q.room and a.in_agent <= t.room and (a.queue = 'cortex' or a.in_tenant <= coalesce(s.room, 1000000))
    order by a.rank, a.position, a.created_at, a.tie
    limit _limit
  ), direct as (
    select e.job_id
    from reserved r
    join open_queue q on q.name = r.queue
    join cortex.queue_entry e on e.job_id = r.job_id
    join open_agent t on t.name = e.job_type
    where e.state = 'ready' and r.expires_at > cortex.now() and not exists (select 1 from running where queue = r.queue)
  )
  select array_agg(job_id) into _chosen from (
    select job_id from direct
    union all
    (select job_id from ordered order by rank, position, created_at, tie)) chosen;
  perform cortex.count_turns(_chosen);
  return coalesce(_chosen, '{}');
end $$;

-- Entries that were submitted while a control was being set have missed their lane: they get it now.
create function cortex.give_lanes(_queues text[], _job_types text[]) returns void language plpgsql as $$
begin
  if not exists (select 1 from cortex.control where fair_share or (scope = 'tenant' and (paused or max_running is not null))) then
    return;
  end if;
  update cortex.queue_entry set by_tenant = true
  where job_id = any (array(
    select e.job_id
    from unnest(_queues) as q(name)
    cross join unnest(_job_types) as t(name)
    cross join lateral (
      select job_id, tenant_id from cortex.queue_entry
      where queue = q.name and job_type = t.name and state = 'ready' and not by_tenant
      order by rank, position, created_at, job_id
      limit 1000) e
    where cortex.has_own_lane(q.name, e.tenant_id)));
end $$;

-- In queues that share fairly, those who were served step back, and the clock of the queue goes on.
create function cortex.count_turns(_chosen uuid[]) returns void language plpgsql as $$
declare
  _clock constant uuid := '00000000-0000-0000-0000-000000000000';
begin
  with served as (
    insert into cortex.fair_turn (queue, tenant_id, served)
    select e.queue, e.tenant_id, count(*) + greatest(max(own.served), max(clock.served), 0)
    from cortex.queue_entry e
    join cortex.control c on c.scope = 'queue' and c.name = e.queue and c.fair_share
    left join cortex.fair_turn own on own.queue = e.queue and own.tenant_id = e.tenant_id
    left join cortex.fair_turn clock on clock.queue = e.queue and clock.tenant_id = _clock
    where e.job_id = any (_chosen)
    group by e.queue, e.tenant_id
    on conflict (queue, tenant_id) do update set served = excluded.served
    returning queue, served
  )
  insert into cortex.fair_turn as f (queue, tenant_id, served)
  select queue, _clock, max(served) - 1 from served group by queue
  on conflict (queue, tenant_id) do update set served = greatest(f.served, excluded.served);
end $$;

-- Claims the best entries that are ready and that no other claim has locked, as many as run ids are given.
-- An approved job has a run already, which the worker takes over; `claimed_as` is the run id that was given for it.
-- One window of candidates after the other is looked at, until enough of them could be locked or none are left.
create function cortex.claim(_worker uuid, _actor text, _queues text[], _job_types text[], _run_ids uuid[])
returns table (
  job_id uuid, run_id uuid, job_type text, queue text, tenant_id uuid, payload jsonb, attempt int, retry_count int,
  max_retries int, crash_count int, retry_policy jsonb, timeout_seconds double precision, suspected boolean, resumes boolean,
  claimed_as uuid
) language plpgsql
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  _missing int := cardinality(_run_ids);
  _taken uuid[] := '{}';
  _window uuid[];
  _last_rank int;
  _last_position bigint;
  _last_created_at timestamptz;
  _some_alone boolean := false;
  _closed boolean;
  _steered boolean;
  _claimed int;
begin
  perform pg_advisory_xact_lock_shared(1129270868, 0);
  select coalesce(bool_or(scope = 'gate' and paused), false), coalesce(bool_or(paused or max_running is not null or fair_share), false)
    into _closed, _steered
    from cortex.control;
  if _closed then
    _queues := array(select q from unnest(_queues) q where q = 'cortex');
  end if;
  if _steered or exists (select 1 from cortex.direct_reservation where status = 'ACTIVE')
    or exists (select 1 from cortex.queue_entry where state = 'ready' and by_tenant)
  then
    perform 1 from cortex.worker where id = _worker and status = 'LIVE' for share;
    if found then
      _taken := cortex.lock_entries(cortex.choose(_queues, _job_types, _missing));
      _some_alone := true;
    end if;
    _missing := 0;
  end if;
  while _missing > 0 loop
    select array_agg(c.job_id), (array_agg(c.rank))[_missing], (array_agg(c.position))[_missing],
        (array_agg(c.created_at))[_missing], _some_alone or bool_or(c.alone)
      into _window, _last_rank, _last_position, _last_created_at, _some_alone
    from (
      select e.job_id, e.rank, e.position, e.created_at, e.alone
      from unnest(_queues) as q(name)
      join unnest(_job_types) as t(name) on (q.name = 'cortex') = starts_with(t.name, 'cortex.')
      cross join lateral (
        select job_id, rank, position, created_at, alone
        from cortex.queue_entry
        where queue = q.name and job_type = t.name and state = 'ready' and not by_tenant
          and (_window is null
            or (rank, position, created_at, job_id) > (_last_rank, _last_position, _last_created_at, _window[cardinality(_window)]))
        order by rank, position, created_at, job_id
        limit _missing
      ) e
      order by e.rank, e.position, e.created_at, e.job_id
      limit _missing
    ) c;
    exit when _window is null;
    if cardinality(_taken) = 0 then
      -- Held until the claim commits, so that this worker cannot be declared LOST in between. Not before there is something
      -- to claim: a lock is a write, and every idle worker that is woken would wait for the disk.
      perform 1 from cortex.worker where id = _worker and status = 'LIVE' for share;
      exit when not found;
    end if;
    _taken := _taken || cortex.lock_entries(_window);
    exit when cardinality(_window) < _missing;
    _missing := cardinality(_run_ids) - cardinality(_taken);
  end loop;
  if cardinality(_taken) = 0 then
    return;
  end if;
  if _some_alone then
    _taken := cortex.without_company(_taken);
  end if;
  return query
    with claimed as (
      update cortex.job j
      set status = 'RUNNING',
        run_id = coalesce(j.run_id, c.run_id),
        worker_id = _worker,
        claimed_together = cardinality(_taken),
        worker_job_id = null,
        attempt = j.attempt + case when j.run_id is null then 1 else 0 end,
        next_retry_at = null,
        wait_reason = null,
        started_at = coalesce(j.started_at, greatest(cortex.now(), j.updated_at)),
        updated_at = greatest(cortex.now(), j.updated_at),  -- A claim that waited must not seem older than what it waited for.
        revision = j.revision + case when j.run_id is null then 1 else 0 end,
        cause = 'claim',
        actor = _actor,
        note = case when j.run_id is not null then jsonb_build_object('claimed_as', c.run_id) end
      from unnest(_taken, _run_ids[1:cardinality(_taken)]) as c(job_id, run_id)
      where j.id = c.job_id
        and (j.status = 'PENDING' or j.status = 'RETRY' or (j.status = 'RUNNING' and j.worker_id is null))
      returning j.id, j.run_id, j.job_type, j.queue, j.tenant_id, j.payload, j.attempt, j.retry_count, j.max_retries,
        j.crash_count, j.retry_policy, j.timeout_seconds, j.error, j.checkpoint is not null as resumes, j.priority, j.position,
        j.created_at, c.run_id as claimed_as
    )
    select id, run_id, job_type, queue::text, tenant_id, payload, attempt::int, retry_count, max_retries::int, crash_count::int,
      retry_policy, timeout_seconds::double precision, coalesce(error ->> 'type' = 'WorkerLost', false), resumes, claimed_as
    from claimed
    order by priority desc, position, created_at, id;
  get diagnostics _claimed = row_count;
  if _claimed < cardinality(_taken) then
    perform cortex.put_away_entries(_taken);
  end if;
end $$;

-- Those of the entries that can be locked, in the order in which they are given.
create function cortex.lock_entries(_window uuid[]) returns uuid[] language plpgsql as $$
begin
  return array(
    select e.job_id
    from (
      select c.job_id, w.place
      from unnest(_window) with ordinality as w(job_id, place)
      join cortex.queue_entry c on c.job_id = w.job_id
      where c.state = 'ready'
      for update of c skip locked
    ) e
    order by e.place);
end $$;

-- An entry that must run alone is never taken with others: only it, or only those before it.
create function cortex.without_company(_taken uuid[]) returns uuid[] language plpgsql as $$
declare
  _first_alone int := (
    select min(t.place) from unnest(_taken) with ordinality as t(job_id, place)
    join cortex.queue_entry e on e.job_id = t.job_id
    where e.alone);
begin
  return _taken[1:case when _first_alone is null then cardinality(_taken) else greatest(_first_alone - 1, 1) end];
end $$;

-- A waiting job keeps its place in the queue in step with its own fields; any other job has no place to change.
create function cortex.refuse_reordering() returns trigger language plpgsql as $$
begin
  raise exception 'Job % is %; only a job that waits can change its priority or position.', old.id, old.status
    using errcode = 'check_violation';
end $$;
create trigger job_order_fixed before update of priority, position on cortex.job
  for each row when (
    (new.priority <> old.priority or new.position <> old.position) and old.status <> 'PENDING' and old.status <> 'RETRY')
  execute function cortex.refuse_reordering();

create function cortex.job_reordered() returns trigger language plpgsql as $$
begin
  update cortex.queue_entry set rank = -new.priority, position = new.position where job_id = new.id;
  if new.serial_key is not null then
    perform cortex.settle_serial_keys(array[new.tenant_id], array[new.serial_key]);
  end if;
  return null;
end $$;
create trigger job_reordered after update of priority, position on cortex.job
  for each row when (new.priority <> old.priority or new.position <> old.position)
  execute function cortex.job_reordered();

-- A reservation ends with the run that it was made for, or with its job.
create function cortex.release_reservations(_jobs uuid[]) returns void language sql as $$
  with released as (
    update cortex.direct_reservation set status = 'RELEASED', ended_at = cortex.now()
    where job_id = any (_jobs) and status = 'ACTIVE'
    returning id, queue, reserved_by, job_id
  ), audited as (
    insert into cortex.audit_log (actor, action, object_type, object_id, details)
    select reserved_by, 'RESERVATION_RELEASED', 'reservation', id::text, jsonb_build_object('queue', queue, 'job_id', job_id)
    from released
  )
  select pg_notify('cortex', 'ready:' || queue) from released;
$$;

comment on table cortex.direct_reservation is 'A queue that is held for one job: no other is claimed from it.';
comment on column cortex.direct_reservation.id is 'UUIDv7.';
comment on column cortex.direct_reservation.queue is 'The queue; at most one reservation of it is ACTIVE.';
comment on column cortex.direct_reservation.job_id is 'The job that it is held for.';
comment on column cortex.direct_reservation.reserved_by is 'Who holds it.';
comment on column cortex.direct_reservation.reserved_at is 'Since when.';
comment on column cortex.direct_reservation.expires_at is 'Unless renewed, it ends then; not while its job runs.';
comment on column cortex.direct_reservation.status is 'ACTIVE, RELEASED or EXPIRED.';
comment on column cortex.direct_reservation.ended_at is 'When it was released or expired.';

comment on table cortex.job_key is 'Which job holds a job key: the last that was submitted with it.';
comment on column cortex.job_key.tenant_id is 'Keys are unique within a tenant.';
comment on column cortex.job_key.job_key is 'The key.';
comment on column cortex.job_key.job_id is 'The job.';

comment on table cortex.fair_turn is 'How often each tenant had its turn in a queue that shares fairly.';
comment on column cortex.fair_turn.queue is 'The queue.';
comment on column cortex.fair_turn.tenant_id is 'The tenant; zeros for the clock of the queue.';
comment on column cortex.fair_turn.served is 'The turns so far.';
