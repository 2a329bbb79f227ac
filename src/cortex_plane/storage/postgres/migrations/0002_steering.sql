-- Steering: who decides what runs when, and what the claim makes of it.
--
-- Advisory locks of the class 1129270868:
--   0   shared by every claim, exclusive for whoever changes a control or reserves a queue: no claim begins after that returned
--   1   held by a claim while limits, shares or reservations are in force: take the lock first, then count
-- Lock order everywhere: these, queue entry, job, run, worker last.
-- A claim also shares the lock of the class 1129270869 of its own worker: see cortex.no_claim_under_way.

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

-- While there is a row, waiting jobs are moved into lanes of their tenants, or out of them, page by page, up to the job that it names.
create table cortex.lane_pass (
  id integer primary key check (id = 1),
  after uuid not null default '00000000-0000-0000-0000-000000000000',
  again boolean not null default false
);

-- The tenants that have ready jobs in lanes of their own in a queue, in the order in which they come next, found by jumping from one
-- to the next in the index. Tenants of a fair queue come by their turns, then by their first jobs; of any other by their first jobs.
create function cortex.tenants_waiting(_queue text, _fair boolean, _without uuid[]) returns table (tenant_id uuid, turn bigint)
  language sql stable set jit = off set enable_seqscan = off
as $$
  with recursive waiting as (
    (select e.tenant_id, e.rank, e.position, e.created_at, e.job_id from cortex.queue_entry e
      where e.queue = _queue and e.state = 'ready' and e.by_tenant
      order by e.tenant_id, e.rank, e.position, e.created_at, e.job_id limit 1)
    union all
    select n.tenant_id, n.rank, n.position, n.created_at, n.job_id
    from waiting w
    cross join lateral (
      select e.tenant_id, e.rank, e.position, e.created_at, e.job_id from cortex.queue_entry e
      where e.queue = _queue and e.state = 'ready' and e.by_tenant and e.tenant_id > w.tenant_id
      order by e.tenant_id, e.rank, e.position, e.created_at, e.job_id limit 1) n
  ), clock as materialized (
    select served from cortex.fair_turn where queue = _queue and tenant_id = '00000000-0000-0000-0000-000000000000'
  )
  select t.tenant_id, t.turn from (
    select w.*, case when _fair then
      greatest((select f.served from cortex.fair_turn f where f.queue = _queue and f.tenant_id = w.tenant_id),
        (select served from clock), 0)
      else 0 end as turn
    from waiting w) t
  where t.tenant_id <> all (_without)
  order by t.turn, t.rank, t.position, t.created_at, t.job_id
$$;

-- Of the jobs that wait in lanes of their tenants, those among which the next so many are. A fair queue is read layer by layer, some
-- jobs of each tenant; in any other the first tenants have the first jobs.
-- (`job_type || ''` keeps the planner from the index by agents: one look for each agent of each tenant.)
create function cortex.first_of_tenants(
  _queue text, _fair boolean, _job_types text[], _limit int, _shut uuid[], _passed_over uuid[])
returns table (job_id uuid, tenant_id uuid, job_type text, rank int, "position" bigint, created_at timestamptz) language plpgsql
  set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  _tenants uuid[];
  _turns bigint[];
  _depth int := 0;
  _layer int;
  _from int;
  _last_turn bigint;
  _found int := 0;
  _rows int;
  _before int;
begin
  select array_agg(t.tenant_id), array_agg(t.turn) into _tenants, _turns
    from cortex.tenants_waiting(_queue, _fair, _shut) t;
  if _tenants is null then
    return;
  end if;
  _layer := case when _fair then 1 + _limit / cardinality(_tenants) else _limit end;
  loop
    _before := _found;
    _from := 1;
    while _from <= cardinality(_tenants) and _found < _limit loop
      _last_turn := _turns[least(_from + _limit - 1, cardinality(_turns))];
      return query
        select e.job_id, t.id, e.job_type, e.rank, e.position, e.created_at
        from unnest(_tenants[_from : _from + _limit - 1], _turns[_from : _from + _limit - 1]) as t(id, turn)
        cross join lateral (
          select e.job_id, e.job_type, e.rank, e.position, e.created_at from cortex.queue_entry e
          where e.queue = _queue and e.tenant_id = t.id and e.state = 'ready' and e.by_tenant
            and e.job_type || '' = any (_job_types) and e.job_id <> all (_passed_over)
          order by e.rank, e.position, e.created_at, e.job_id
          offset case when _depth = 0 then 0 else _depth + _last_turn - t.turn end
          limit least(_layer + case when _depth = 0 then _last_turn - t.turn else 0 end, _limit)) e;
      get diagnostics _rows = row_count;
      _found := _found + _rows;
      _from := _from + _limit;
    end loop;
    exit when not _fair or _found >= _limit or _found = _before;
    _depth := _depth + _layer;
    _layer := _depth;
  end loop;
end $$;

-- What to claim while pauses, limits, fair shares or reservations are in force, in order. Candidates are admitted one by one while
-- their queue, agent and tenant have room. In a fair queue the tenants take turns in the places that its jobs have among others.
-- With `_any_number`, whatever has room at all has room for any number.
create function cortex.choose(_queues text[], _job_types text[], _limit int, _passed_over uuid[], _any_number boolean default false)
  returns uuid[] language plpgsql
  set jit = off set enable_seqscan = off set enable_hashjoin = on set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
declare
  _queue_room bigint[];
  _agent_room bigint[];
  _fair boolean[];
  _tenants uuid[];
  _tenant_room bigint[];
  _chosen uuid[];
  _shut uuid[];
  _one record;
  _tenant int;
begin
  with running as materialized (
    select queue, job_type, tenant_id, count(*) as runs from cortex.open_run
    where worker_id is not null
      and (exists (select 1 from cortex.control where max_running is not null)
        or exists (select 1 from cortex.direct_reservation where status = 'ACTIVE'))
    group by queue, job_type, tenant_id
  ), queue_room as (
    select q.place, coalesce(c.fair_share, false) as fair,
      case when c.paused or c.held_until > cortex.now() then 0
        else coalesce(c.max_running - (select coalesce(sum(runs), 0) from running where queue = q.name), 1000000) end as room
    from unnest(_queues) with ordinality as q(name, place)
    left join cortex.control c on c.scope = 'queue' and c.name = q.name
  ), agent_room as (
    select t.place,
      case when c.paused or c.held_until > cortex.now() then 0
        else coalesce(c.max_running - (select coalesce(sum(runs), 0) from running where job_type = t.name), 1000000) end as room
    from unnest(_job_types) with ordinality as t(name, place)
    left join cortex.control c on c.scope = 'agent' and c.name = t.name
  ), tenant_room as (
    select c.name::uuid as id,
      case when c.paused then 0
        else c.max_running - (select coalesce(sum(runs), 0) from running where tenant_id = c.name::uuid and queue <> 'cortex') end as room
    from cortex.control c where c.scope = 'tenant' and (c.paused or c.max_running is not null)
  )
  select (select array_agg(room order by place) from queue_room), (select array_agg(fair order by place) from queue_room),
      (select array_agg(room order by place) from agent_room),
      (select coalesce(array_agg(id order by id), '{}') from tenant_room),
      (select coalesce(array_agg(room order by id), '{}') from tenant_room),
      array(
        select e.job_id
        from cortex.direct_reservation r
        join unnest(_queues) with ordinality as q(name, place) on q.name = r.queue
        join queue_room o on o.place = q.place and o.room > 0
        join cortex.queue_entry e on e.job_id = r.job_id
        join unnest(_job_types) with ordinality as t(name, place) on t.name = e.job_type
        join agent_room a on a.place = t.place and a.room > 0
        where r.status = 'ACTIVE' and e.state = 'ready' and r.expires_at > cortex.now()
          and e.job_id <> all (_passed_over)
          and not exists (select 1 from running where queue = r.queue))
    into _queue_room, _fair, _agent_room, _tenants, _tenant_room, _chosen;
  _shut := array(select t.id from unnest(_tenants, _tenant_room) as t(id, room) where t.room <= 0);
  if _any_number then
    _queue_room := array(select case when q.room > 0 then 1000000 else 0 end from unnest(_queue_room) with ordinality as q(room, place) order by q.place);
    _agent_room := array(select case when a.room > 0 then 1000000 else 0 end from unnest(_agent_room) with ordinality as a(room, place) order by a.place);
    _tenant_room := array(select case when t.room > 0 then 1000000 else 0 end from unnest(_tenant_room) with ordinality as t(room, place) order by t.place);
  end if;
  for _one in
    with lane as materialized (
      select q.name as queue, q.place as queue_place, t.name as job_type, t.place as agent_place,
        least(_limit, _queue_room[q.place], _agent_room[t.place]) as room
      from unnest(_queues) with ordinality as q(name, place)
      join unnest(_job_types) with ordinality as t(name, place) on (q.name = 'cortex') = starts_with(t.name, 'cortex.')
      where _queue_room[q.place] > 0 and _agent_room[t.place] > 0
        and not exists (select 1 from cortex.direct_reservation r where r.status = 'ACTIVE' and r.queue = q.name)
    ), candidate as materialized (
      select e.job_id, e.tenant_id, l.queue, l.queue_place, l.agent_place, e.rank, e.position, e.created_at
      from lane l
      cross join lateral (
        select job_id, tenant_id, rank, position, created_at from cortex.queue_entry
        where queue = l.queue and job_type = l.job_type and state = 'ready' and not by_tenant and job_id <> all (_passed_over)
          and (tenant_id <> all (_shut) or l.queue = 'cortex')  -- Not in their lanes yet: see cortex.lane_pass.
        order by rank, position, created_at, job_id
        limit l.room) e
      union all
      select e.job_id, e.tenant_id, o.queue, o.queue_place, array_position(_job_types, e.job_type), e.rank, e.position, e.created_at
      from (select queue, queue_place, array_agg(job_type) as job_types from lane group by queue, queue_place) o
      cross join lateral cortex.first_of_tenants(o.queue, _fair[o.queue_place], o.job_types, _limit, _shut, _passed_over) e
    ), turned as (
      select c.job_id, c.tenant_id, c.queue_place, c.agent_place, c.rank, c.position, c.created_at,
        row_number() over (partition by c.queue, c.tenant_id order by c.rank, c.position, c.created_at, c.job_id)
          + greatest(own.served, clock.served, 0) as turn
      from candidate c
      left join cortex.fair_turn own on own.queue = c.queue and own.tenant_id = c.tenant_id
      left join cortex.fair_turn clock on clock.queue = c.queue and clock.tenant_id = '00000000-0000-0000-0000-000000000000'
      where _fair[c.queue_place]
    ), occupant as (
      select t.*, row_number() over (partition by queue_place order by turn, rank, position, created_at, job_id) as place from turned t
    ), seat as (
      select queue_place, rank, position, created_at, job_id as tie,
        row_number() over (partition by queue_place order by rank, position, created_at, job_id) as place
      from turned
    )
    select job_id, tenant_id, queue_place, agent_place, rank, position, created_at, job_id as tie
    from candidate where not _fair[queue_place]
    union all
    select o.job_id, o.tenant_id, o.queue_place, o.agent_place, s.rank, s.position, s.created_at, s.tie
    from occupant o join seat s on s.queue_place = o.queue_place and s.place = o.place
    order by rank, position, created_at, tie
  loop
    exit when cardinality(_chosen) >= _limit;
    continue when _queue_room[_one.queue_place] <= 0 or _agent_room[_one.agent_place] <= 0;
    if cardinality(_tenants) > 0 and _queues[_one.queue_place] <> 'cortex' then
      _tenant := array_position(_tenants, _one.tenant_id);
      if _tenant is not null then
        continue when _tenant_room[_tenant] <= 0;
        _tenant_room[_tenant] := _tenant_room[_tenant] - 1;
      end if;
    end if;
    _queue_room[_one.queue_place] := _queue_room[_one.queue_place] - 1;
    _agent_room[_one.agent_place] := _agent_room[_one.agent_place] - 1;
    _chosen := _chosen || _one.job_id;
  end loop;
  return _chosen;
end $$;

-- Both wait for the lock_timeout of the claim at most. False: it was not their turn; the worker is told to look again.
create function cortex.wait_for_controls(_queues text[]) returns boolean language plpgsql as $$
begin
  perform pg_advisory_xact_lock_shared(1129270868, 0);
  return true;
exception when lock_not_available then
  perform pg_notify('cortex', 'ready:' || q) from unnest(_queues) q;
  return false;
end $$;

create function cortex.wait_for_turn(_queues text[]) returns boolean language plpgsql as $$
begin
  perform pg_advisory_xact_lock(1129270868, 1);
  return true;
exception when lock_not_available then
  perform pg_notify('cortex', 'ready:' || q) from unnest(_queues) q;
  return false;
end $$;

-- Chooses and locks. What another transaction has locked is passed over, and its place goes to the next. A claim of one job would come
-- back empty if ten were locked before it, so each round looks for locked ones further ahead than the last.
create function cortex.take_chosen(_queues text[], _job_types text[], _limit int) returns uuid[] language plpgsql as $$
declare
  _chosen uuid[];
  _taken uuid[];
  _passed_over uuid[] := '{}';
  _ahead int := 100;
begin
  if not cortex.wait_for_turn(_queues) then
    return '{}';
  end if;
  for _round in 1..10 loop
    _chosen := (cortex.choose(_queues, _job_types, _limit, _passed_over))[1:_limit];
    _taken := cortex.lock_entries(_chosen);
    exit when cardinality(_taken) = cardinality(_chosen);
    _passed_over := _passed_over || cortex.not_to_be_had(cortex.choose(_queues, _job_types, _limit + _ahead, _passed_over, true));
    _ahead := least(4 * _ahead, 6400);
  end loop;
  perform cortex.count_turns(_taken);
  return _taken;
end $$;

-- Of these entries, those that `cortex.lock_entries` cannot have. Its locks are given back.
create function cortex.not_to_be_had(_window uuid[]) returns uuid[] language plpgsql as $$
declare
  _free uuid[];
begin
  begin
    _free := cortex.lock_entries(_window);
    raise sqlstate 'CX001';
  exception when sqlstate 'CX001' then
    return array(select w from unnest(_window) w where w <> all (_free));
  end;
end $$;

-- Whether anything that is set concerns a claim from these queues for these agents. What concerns others costs it nothing.
create function cortex.is_steered(_queues text[], _job_types text[]) returns boolean language plpgsql
  set jit = off set enable_seqscan = off
as $$
begin
  return exists (
      select 1 from cortex.control
      where (paused or max_running is not null or fair_share or held_until > cortex.now())
        and ((scope = 'queue' and name = any (_queues)) or (scope = 'agent' and name = any (_job_types)) or scope = 'tenant'))
    or exists (select 1 from cortex.direct_reservation where status = 'ACTIVE' and queue = any (_queues))
    or exists (select 1 from cortex.queue_entry where state = 'ready' and by_tenant and queue = any (_queues));
end $$;

-- In queues that share fairly, those who were served step back, and the clock of the queue goes on. Only one claim counts at a time,
-- so a row that is locked is locked by an outsider. Its turn is not counted: a claim waits for no row.
create function cortex.count_turns(_chosen uuid[]) returns void language plpgsql as $$
declare
  _clock constant uuid := '00000000-0000-0000-0000-000000000000';
begin
  with taken as materialized (  -- Found by their ids alone: together with the control, a whole queue might be read for them.
    select queue, tenant_id, count(*) as jobs from cortex.queue_entry where job_id = any (_chosen) group by queue, tenant_id
  ), served as materialized (
    select e.queue, e.tenant_id, e.jobs + greatest(own.served, clock.served, 0) as served
    from taken e
    join cortex.control c on c.scope = 'queue' and c.name = e.queue and c.fair_share
    left join cortex.fair_turn own on own.queue = e.queue and own.tenant_id = e.tenant_id
    left join cortex.fair_turn clock on clock.queue = e.queue and clock.tenant_id = _clock
  ), turn as materialized (
    select queue, tenant_id, served from served
    union all
    select queue, _clock, max(served) - 1 from served group by queue
  ), free as materialized (
    select f.queue, f.tenant_id, t.served from cortex.fair_turn f join turn t on t.queue = f.queue and t.tenant_id = f.tenant_id
    for update of f skip locked
  ), counted as (
    update cortex.fair_turn f set served = greatest(f.served, t.served)
    from free t
    where f.queue = t.queue and f.tenant_id = t.tenant_id
  )
  insert into cortex.fair_turn (queue, tenant_id, served)
  select queue, tenant_id, served from turn
  on conflict (queue, tenant_id) do nothing;
end $$;

-- Of the first ready entries after a place, those of these queues for these agents, in order. Null: among so many as are looked at there
-- are too few, though others wait behind them.
-- Sorts are forbidden: a plan from a time when the table was small would read and sort all that is ready.
create function cortex.first_ready(
  _queues text[], _job_types text[], _limit int, _look int, _rank int, _position bigint, _created_at timestamptz, _last uuid
) returns uuid[] language plpgsql
  set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set plan_cache_mode = force_generic_plan
as $$
declare
  _found uuid[];
begin
  if cardinality(_queues) = 1 then
    _found := array(
      select s.job_id
      from (
        select e.job_id, e.job_type from cortex.queue_entry e
        where e.queue = _queues[1] and e.state = 'ready' and not e.by_tenant
          and (e.rank, e.position, e.created_at, e.job_id) > (_rank, _position, _created_at, _last)
        order by e.rank, e.position, e.created_at, e.job_id
        limit _look) s
      where s.job_type = any (_job_types) and (_queues[1] = 'cortex') = starts_with(s.job_type, 'cortex.')
      limit _limit);
    if cardinality(_found) < _limit and exists (
        select 1 from cortex.queue_entry e
        where e.queue = _queues[1] and e.state = 'ready' and not e.by_tenant
          and (e.rank, e.position, e.created_at, e.job_id) > (_rank, _position, _created_at, _last)
        order by e.rank, e.position, e.created_at, e.job_id
        offset _look limit 1)
    then
      return null;
    end if;
    return _found;
  end if;
  _found := array(
    select s.job_id
    from (
      select e.job_id, e.queue, e.job_type from cortex.queue_entry e
      where e.state = 'ready' and not e.by_tenant
        and (e.rank, e.position, e.created_at, e.job_id) > (_rank, _position, _created_at, _last)
      order by e.rank, e.position, e.created_at, e.job_id
      limit _look) s
    where s.queue = any (_queues) and s.job_type = any (_job_types) and (s.queue = 'cortex') = starts_with(s.job_type, 'cortex.')
    limit _limit);
  if cardinality(_found) < _limit and exists (
      select 1 from cortex.queue_entry e
      where e.state = 'ready' and not e.by_tenant
        and (e.rank, e.position, e.created_at, e.job_id) > (_rank, _position, _created_at, _last)
      order by e.rank, e.position, e.created_at, e.job_id
      offset _look limit 1)
  then
    return null;
  end if;
  return _found;
end $$;

-- The same by lanes, one for each queue and agent: exact, however many entries of other agents stand before them. The first entry of
-- each lane says which lanes can hold the best; no more of them than entries are wanted.
create function cortex.ready_in_lanes(
  _queues text[], _job_types text[], _limit int, _rank int, _position bigint, _created_at timestamptz, _last uuid
) returns uuid[] language plpgsql
  set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
begin
  return array(
    select e.job_id
    from (
      select q.name as queue, t.name as job_type
      from unnest(_queues) as q(name)
      join unnest(_job_types) as t(name) on (q.name = 'cortex') = starts_with(t.name, 'cortex.')
      cross join lateral (
        select rank, position, created_at, job_id from cortex.queue_entry
        where queue = q.name and job_type = t.name and state = 'ready' and not by_tenant
          and (rank, position, created_at, job_id) > (_rank, _position, _created_at, _last)
        order by rank, position, created_at, job_id
        limit 1) first
      order by first.rank, first.position, first.created_at, first.job_id
      limit _limit
    ) lane
    cross join lateral (
      select rank, position, created_at, job_id from cortex.queue_entry
      where queue = lane.queue and job_type = lane.job_type and state = 'ready' and not by_tenant
        and (rank, position, created_at, job_id) > (_rank, _position, _created_at, _last)
      order by rank, position, created_at, job_id
      limit _limit) e
    order by e.rank, e.position, e.created_at, e.job_id
    limit _limit);
end $$;

-- The first ready entries after the heads of their queues: {queue, job_type, rank, position, created_at, job_id}, the last entry of each
-- priority that was claimed some time ago. While somebody holds an old snapshot, entries that were claimed since stay in the index, and
-- whoever reads from its beginning reads them all. Priorities without a head are read from their beginning.
create function cortex.after_heads(_queues text[], _job_types text[], _limit int, _heads jsonb) returns uuid[] language plpgsql stable
  set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
as $$
begin
  return array(
    select e.job_id
    from unnest(_queues) as q(name)
    join unnest(_job_types) as t(name) on (q.name = 'cortex') = starts_with(t.name, 'cortex.')
    cross join lateral (
      select h.rank, h.position, h.created_at, h.job_id, lead(h.rank, 1, 2147483647) over (order by h.rank) as next_rank
      from (
        select -2147483648 as rank, 0::bigint as position, '-infinity'::timestamptz as created_at,
          '00000000-0000-0000-0000-000000000000'::uuid as job_id
        union all
        select x.rank, x.position, x.created_at, x.job_id
        from jsonb_to_recordset(_heads)
          as x(queue text, job_type text, rank int, position bigint, created_at timestamptz, job_id uuid)
        where x.queue = q.name and x.job_type = t.name) h
    ) h
    cross join lateral (
      select job_id, rank, position, created_at
      from cortex.queue_entry
      where queue = q.name and job_type = t.name and state = 'ready' and not by_tenant
        and (rank, position, created_at, job_id) > (h.rank, h.position, h.created_at, h.job_id) and rank < h.next_rank
      order by rank, position, created_at, job_id
      limit _limit
    ) e
    order by e.rank, e.position, e.created_at, e.job_id
    limit _limit);
end $$;

-- Claims the best entries that are ready and that no other claim has locked, as many as run ids are given.
-- An approved job has a run already, which the worker takes over; `claimed_as` is the run id that was given for it.
-- One window of candidates after the other is looked at, until enough of them could be locked or none are left.
-- `_free` of them begin at once. Of the others none belongs to a group: it could not be stopped any more.
create function cortex.claim(_worker uuid, _actor text, _queues text[], _job_types text[], _run_ids uuid[], _free int, _heads jsonb default null)
returns table (
  job_id uuid, run_id uuid, job_type text, queue text, tenant_id uuid, payload jsonb, attempt int, retry_count int,
  max_retries int, crash_count int, retry_policy jsonb, timeout_seconds double precision,
  failed_runs int, cleanup_seconds double precision, cancel_request json, seconds_left double precision, resumes boolean,
  effect_root uuid, claimed_as uuid, rank int, place bigint, created_at timestamptz
) language plpgsql
  set lock_timeout = '1s' set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  _missing int := cardinality(_run_ids);
  _taken uuid[] := '{}';
  _window uuid[];
  _rank int := -2147483648;
  _position bigint := -9223372036854775808;
  _created_at timestamptz := '-infinity';
  _last uuid := '00000000-0000-0000-0000-000000000000';
  _end record;
  _closed boolean;
  _steered boolean;
  _claimed int;
begin
  if not pg_try_advisory_xact_lock_shared(1129270869, hashtext(_worker::text)) then
    return;
  end if;
  if not pg_try_advisory_xact_lock_shared(1129270868, 0) and not cortex.wait_for_controls(_queues) then
    return;
  end if;
  if exists (
      select 1 from cortex.key_to_settle_id
      where is_called and (_heads is null or last_value > (cortex.marks_read())[1]))
    and (_heads is not null or exists (select 1 from cortex.key_to_settle))
  then
    perform cortex.settle_marked_keys(100 + 2 * cardinality(_run_ids), _heads is not null);
  end if;
  select coalesce(bool_or(scope = 'gate' and paused), false), count(*) > 0 into _closed, _steered from cortex.control;
  if _closed then
    _queues := array(select q from unnest(_queues) q where q = 'cortex');
  end if;
  if (_steered
      or exists (select 1 from cortex.direct_reservation where status = 'ACTIVE')
      or exists (select 1 from cortex.queue_entry where state = 'ready' and by_tenant))
    and cortex.is_steered(_queues, _job_types)
  then
    _taken := cortex.take_chosen(_queues, _job_types, _missing);
    _missing := 0;
  end if;
  if _heads is not null and _missing > 0 then
    _taken := cortex.lock_entries(cortex.after_heads(_queues, _job_types, _missing, _heads));
    _missing := 0;
  end if;
  while _missing > 0 loop
    _window := null;
    if cardinality(_job_types) * cardinality(_queues) > 4 then
      _window := cortex.first_ready(_queues, _job_types, _missing, 200 + 5 * _missing, _rank, _position, _created_at, _last);
    end if;
    if _window is null then
      _window := cortex.ready_in_lanes(_queues, _job_types, _missing, _rank, _position, _created_at, _last);
    end if;
    exit when cardinality(_window) = 0;
    _taken := _taken || cortex.lock_entries(_window);
    exit when cardinality(_window) < _missing or cardinality(_taken) = cardinality(_run_ids);
    _missing := cardinality(_run_ids) - cardinality(_taken);
    -- What others have locked is passed over; what they have taken meanwhile is gone.
    for _end in
      select e.rank, e.position, e.created_at, e.job_id from cortex.queue_entry e
      where e.job_id = any (_window)
      order by e.rank desc, e.position desc, e.created_at desc, e.job_id desc limit 1
    loop
      _rank := _end.rank;
      _position := _end.position;
      _created_at := _end.created_at;
      _last := _end.job_id;
    end loop;
  end loop;
  if cardinality(_taken) = 0 then
    return;
  end if;
  return query
    with claimed as (
      update cortex.job j
      set status = 'RUNNING',
        run_id = coalesce(j.run_id, c.run_id),
        worker_id = _worker,
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
      from unnest(_taken, _run_ids[1:cardinality(_taken)]) with ordinality as c(job_id, run_id, place)
      where j.id = c.job_id
        and (c.place <= _free or j.group_id is null)
        and (j.status = 'PENDING' or j.status = 'RETRY' or (j.status = 'RUNNING' and j.worker_id is null))
        and (j.deadline_at is null or j.deadline_at > cortex.now() or j.cancel_requested_at is not null)
        and exists (select 1 from cortex.worker w where w.id = _worker and w.status = 'LIVE')
      returning j.id, j.run_id, j.job_type, j.queue, j.tenant_id, j.payload, j.attempt, j.retry_count, j.max_retries,
        j.crash_count, j.retry_policy, j.timeout_seconds, j.failed_runs, j.cleanup_seconds, j.cancel_request, j.deadline_at,
        j.checkpoint is not null as resumes, j.effect_root, j.priority,
        j.position, j.created_at, c.run_id as claimed_as
    )
    select id, run_id, job_type, queue::text, tenant_id, payload, attempt::int, retry_count, max_retries::int, crash_count::int,
      retry_policy, timeout_seconds::double precision, failed_runs::int, cleanup_seconds, cancel_request,
      extract(epoch from deadline_at - cortex.now())::double precision, resumes, effect_root,
      claimed_as, -priority, position, created_at
    from claimed
    order by priority desc, position, created_at, id;
  get diagnostics _claimed = row_count;
  if _claimed < cardinality(_taken) then
    perform cortex.put_away_entries(_taken);
  end if;
end $$;

-- Those of the entries that can be locked together with their jobs, in the order in which they are given. Members of a group that is
-- to stop do not begin.
create function cortex.lock_entries(_window uuid[]) returns uuid[] language plpgsql as $$
begin
  return array(
    select e.job_id
    from (
      select c.job_id, w.place
      from unnest(_window) with ordinality as w(job_id, place)
      join cortex.queue_entry c on c.job_id = w.job_id
      join cortex.job j on j.id = w.job_id
      where c.state = 'ready'
        and (j.group_id is null or j.attempt > 0 or j.retry_of is not null
          or not exists (select 1 from cortex.group_failure f where f.group_id = j.group_id))
      for update of c skip locked
      for no key update of j skip locked
    ) e
    order by e.place);
end $$;

-- After a claim that was refused: of the next jobs, those that cannot be started wait for a minute, so that they stop no other. Each is
-- tried and undone. A trigger of the users' own, or a row of history that somebody forged, can make a job so.
create function cortex.set_aside_unstartable(_worker uuid, _queues text[], _job_types text[], _limit int) returns setof uuid
  language plpgsql set lock_timeout = '1s' set jit = off set enable_seqscan = off
as $$
declare
  _job uuid;
begin
  foreach _job in array cortex.lock_entries(cortex.choose(_queues, _job_types, _limit, '{}')) loop
    begin
      update cortex.job
      set status = 'RUNNING', run_id = coalesce(run_id, gen_random_uuid()), worker_id = _worker, worker_job_id = null,
        attempt = attempt + 1, next_retry_at = null, wait_reason = null, revision = revision + 1, cause = 'claim',
        updated_at = greatest(cortex.now(), updated_at)
      where id = _job and (status in ('PENDING', 'RETRY') or (status = 'RUNNING' and worker_id is null));
      raise sqlstate 'CX001';
    exception
      when sqlstate 'CX001' then
        null;
      when others then
        update cortex.queue_entry set state = 'later', due_at = cortex.now() + interval '1 minute' where job_id = _job;
        return next _job;
    end;
  end loop;
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

comment on table cortex.lane_pass is 'One row while waiting jobs are moved into lanes of their tenants, or out of them.';
comment on column cortex.lane_pass.id is 'Always 1.';
comment on column cortex.lane_pass.after is 'The last job of the page that was moved.';
comment on column cortex.lane_pass.again is 'Another control was set meanwhile: begin anew afterwards.';

comment on table cortex.fair_turn is 'How often each tenant had its turn in a queue that shares fairly.';
comment on column cortex.fair_turn.queue is 'The queue.';
comment on column cortex.fair_turn.tenant_id is 'The tenant; zeros for the clock of the queue.';
comment on column cortex.fair_turn.served is 'The turns so far.';
