-- The ground: jobs, their runs, their history, and the queue.
--
--   who writes what
--     job            everybody, within the thirteen transitions; the one source of truth
--     job_run        the triggers of job: a run opens and closes with its job's state
--     job_history    the triggers of job: one row for each transition, never changed
--     queue_entry    the triggers of job: one row for each job that waits to be claimed
--
-- So a client that only knows `update cortex.job` cannot leave a RUNNING job without a run,
-- a waiting job that nobody will pick up, or a transition without its history.
--
-- Lock order everywhere: worker, queue entry, job, run.

create schema if not exists cortex;
comment on schema cortex is 'Cortex Plane: durable jobs, their runs, history and queue.';

-- The one clock of every statement. Tests replace its body; nothing else may read the time.
create function cortex.now() returns timestamptz language sql stable parallel safe
as $$ select statement_timestamp() $$;
comment on function cortex.now() is 'The time by which the plane decides. Replaced in tests only.';

create function cortex.instant(_microseconds bigint) returns timestamptz language sql immutable parallel safe strict
as $$ select timestamptz 'epoch' + _microseconds * interval '1 microsecond' $$;

create function cortex.iso(_at timestamptz) returns text language sql stable parallel safe strict
as $$
  select to_char(_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS')
    || case when extract(microseconds from _at)::bigint % 1000000 <> 0 then to_char(_at at time zone 'UTC', '.US') else '' end
    || '+00:00'
$$;

create function cortex.uuid7() returns uuid language sql volatile parallel safe
as $$
  select encode(
    set_bit(set_bit(
      overlay(uuid_send(gen_random_uuid())
        placing substring(int8send((extract(epoch from cortex.now()) * 1000)::bigint) from 3)
        from 1 for 6),
      52, 1), 53, 1), 'hex')::uuid
$$;
comment on function cortex.uuid7() is 'A UUID that begins with the time in milliseconds, so that ids sort by age.';

-- ---------------------------------------------------------------------------
-- Who and what
-- ---------------------------------------------------------------------------

create table cortex.migration (
  version int primary key,
  name text not null,
  checksum text not null,
  applied_at timestamptz not null default cortex.now()
);

create table cortex.tenant (
  id uuid primary key default cortex.uuid7(),
  name text not null unique check (name <> ''),
  created_at timestamptz not null default cortex.now()
);
insert into cortex.tenant (id, name) values ('00000000-0000-7000-8000-000000000000', 'default');

create table cortex.agent (
  id uuid primary key default cortex.uuid7(),
  job_type text not null unique check (job_type <> ''),
  skill_config jsonb not null default '{}',
  created_at timestamptz not null default cortex.now(),
  updated_at timestamptz not null default cortex.now()
);

create type cortex.worker_status as enum ('LIVE', 'LOST', 'STOPPED');

create table cortex.worker (
  id uuid primary key,
  name text not null,
  status cortex.worker_status not null default 'LIVE',
  queues jsonb not null default '[]',
  job_types jsonb not null default '[]',
  concurrency int not null check (concurrency > 0),
  lease_seconds double precision not null check (lease_seconds > 0),
  started_at timestamptz not null default cortex.now(),
  heartbeat_at timestamptz not null default cortex.now(),
  lease_until timestamptz not null,
  ended_at timestamptz
);
create index worker_live on cortex.worker (lease_until) where status = 'LIVE';
create index worker_lost on cortex.worker (id) where status = 'LOST' and ended_at is null;

-- ---------------------------------------------------------------------------
-- Jobs
-- ---------------------------------------------------------------------------

create type cortex.job_status as enum (
  'PENDING', 'RUNNING', 'COMPLETED', 'FAILED', 'WAITING_FOR_APPROVAL', 'RETRY', 'CANCELLED'
);

-- Positions are spaced, so that a job can be moved between two others by changing one row.
create sequence cortex.job_position as bigint increment by 100 start with 100;
create sequence cortex.queue_entry_id as bigint;

-- What one field must be is checked where it is given a value, not at each change of its row: a checkpoint that is saved would
-- wait for each check of the table, some 3 µs for one.
create domain cortex.queue_name as text check (value <> '');
create domain cortex.priority as int check (value between -1000000 and 1000000);
create domain cortex.retries as int check (value between 0 and 100);
create domain cortex.tally as int check (value >= 0);
create domain cortex.seconds as double precision check (value > 0);
create domain cortex.cents as bigint check (value >= 0);
create domain cortex.tags as jsonb check (jsonb_typeof(value) = 'array');

-- No index here names a column that a transition changes, and half of each page is left free:
-- then claim and finish rewrite the row in place (HOT) and touch no index at all.
create table cortex.job (
  id uuid primary key default cortex.uuid7(),
  tenant_id uuid not null default '00000000-0000-7000-8000-000000000000',
  agent_id uuid not null,
  job_type text not null,
  queue cortex.queue_name not null default 'default',
  status cortex.job_status not null default 'PENDING',
  priority cortex.priority not null default 0,
  position bigint not null default nextval('cortex.job_position'),
  payload jsonb not null default '{}',
  output jsonb,
  error jsonb,
  error_message text,
  checkpoint json,
  retry_count int not null default 0,
  max_retries cortex.retries not null default 3,
  retry_policy jsonb,
  attempt cortex.tally not null default 0,
  crash_count cortex.tally not null default 0,
  next_retry_at timestamptz,
  run_at timestamptz,
  timeout_seconds cortex.seconds,
  wait_reason text,
  run_id uuid,
  worker_id uuid,
  claimed_together int,
  approval_token text,
  approval_expires_at timestamptz,
  worker_job_id bigint default nextval('cortex.queue_entry_id'),
  job_key text,
  serial_key text,
  group_id uuid,
  template_id uuid,
  schedule_id uuid,
  parent_id uuid,
  session_id uuid,
  created_by text,
  retry_of uuid,
  cost_cents cortex.cents not null default 0,
  tags cortex.tags not null default '[]',
  revision bigint not null default 1,
  cause text not null default 'sql',
  actor text default session_user,
  note jsonb,
  created_at timestamptz not null default cortex.now(),
  queued_at timestamptz not null default cortex.now(),
  started_at timestamptz,
  updated_at timestamptz not null default cortex.now(),
  finished_at timestamptz
) with (fillfactor = 50);

create index job_of_agent on cortex.job (agent_id, id desc);
create unique index job_retry_of on cortex.job (retry_of) where retry_of is not null;

create type cortex.run_status as enum (
  'RUNNING', 'COMPLETED', 'FAILED', 'SKIPPED', 'CANCELLED', 'WAITING', 'SLEEPING', 'INTERRUPTED'
);

create table cortex.job_run (
  id uuid not null,
  job_id uuid not null,
  attempt int not null,
  worker_id uuid,
  claimed_together int not null default 1,
  tenant_id uuid not null,
  queue text not null,
  job_type text not null,
  serial_key text,
  template_id uuid,
  params_snapshot jsonb not null,
  status cortex.run_status not null default 'RUNNING',
  started_at timestamptz not null,
  finished_at timestamptz,
  exit_code int,
  error text,
  artifacts jsonb not null default '[]',
  log_path text,
  closed_by text,
  primary key (job_id, id),
  constraint finished_at_exactly_when_closed check ((status = 'RUNNING') = (finished_at is null))
) with (fillfactor = 50);
create index job_run_open on cortex.job_run (worker_id) where status = 'RUNNING';
-- The promise of serial_key, kept by the database: one owned open run for each key.
create unique index job_run_one_for_each_serial_key on cortex.job_run (tenant_id, serial_key)
  where status = 'RUNNING' and worker_id is not null and serial_key is not null;

-- The id is derived: a random one costs a system call, which is more than the rest of the row.
create table cortex.job_history (
  id uuid not null generated always as (md5(uuid_send(job_id) || int8send(revision))::uuid) stored,
  job_id uuid not null,
  revision bigint not null,
  previous_status cortex.job_status,
  new_status cortex.job_status not null,
  cause text not null,
  actor text,
  run_id uuid,
  metadata jsonb,
  created_at timestamptz not null,
  primary key (job_id, revision)
);
create index job_history_ended on cortex.job_history (job_id) where new_status in ('FAILED', 'CANCELLED');

create type cortex.entry_state as enum ('ready', 'later', 'blocked', 'held');

create table cortex.queue_entry (
  id bigint not null default nextval('cortex.queue_entry_id'),
  job_id uuid primary key,
  tenant_id uuid not null,
  queue text not null,
  job_type text not null,
  state cortex.entry_state not null,
  rank int not null,
  position bigint not null,
  created_at timestamptz not null,
  due_at timestamptz not null,
  serial_key text,
  alone boolean not null default false,
  by_tenant boolean not null default false
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
create index queue_entry_ready on cortex.queue_entry (queue, job_type, rank, position, created_at, job_id)
  where state = 'ready' and not by_tenant;
-- Only tenants that are steered one by one, and queues that share fairly, have lanes of their own.
create index queue_entry_ready_by_tenant on cortex.queue_entry (queue, job_type, tenant_id, rank, position, created_at, job_id)
  where state = 'ready' and by_tenant;
create index queue_entry_later on cortex.queue_entry (due_at) where state = 'later';
create index queue_entry_of_key on cortex.queue_entry (tenant_id, serial_key, rank, position, created_at, job_id)
  where serial_key is not null and state in ('ready', 'blocked');
create unique index queue_entry_one_ready_for_each_key on cortex.queue_entry (tenant_id, serial_key)
  where serial_key is not null and state = 'ready';

-- What operators have set for the gate, a queue, an agent or a tenant. No row: nothing is set.
create table cortex.control (
  scope text not null check (scope in ('gate', 'queue', 'agent', 'tenant')),
  name text not null,
  paused boolean not null default false,
  paused_by text,
  paused_at timestamptz,
  pause_reason text,
  max_running int check (max_running > 0),
  fair_share boolean not null default false,
  budget_cents bigint check (budget_cents >= 0),
  on_exhausted text check (on_exhausted in ('refuse', 'pause')),
  updated_by text,
  updated_at timestamptz not null default cortex.now(),
  primary key (scope, name),
  constraint paused_at_exactly_when_paused check (paused = (paused_at is not null)),
  constraint only_queues_share check (not fair_share or scope = 'queue'),
  constraint only_agents_and_tenants_have_budgets check (budget_cents is null or scope in ('agent', 'tenant')),
  constraint a_budget_says_what_happens check ((budget_cents is null) = (on_exhausted is null))
);

create table cortex.audit_log (
  seq bigint generated always as identity primary key,
  at timestamptz not null default cortex.now(),
  tenant_id uuid,
  actor text,
  action text not null,
  object_type text not null,
  object_id text not null,
  reason text,
  source text,
  details jsonb
);
create index audit_log_of_object on cortex.audit_log (object_id);

-- ---------------------------------------------------------------------------
-- What the database refuses
-- ---------------------------------------------------------------------------

create function cortex.refuse_birth() returns trigger language plpgsql as $$
begin
  raise exception 'A job is born PENDING; inserting one as % is refused.', new.status using errcode = 'check_violation';
end $$;
create trigger job_birth before insert on cortex.job
  for each row when (new.status <> 'PENDING')
  execute function cortex.refuse_birth();

create function cortex.refuse_transition() returns trigger language plpgsql as $$
begin
  raise exception 'Job % cannot go from % to %.', old.id, old.status, new.status using errcode = 'check_violation';
end $$;
create trigger job_transition before update of status on cortex.job
  for each row when (
    new.status <> old.status and not new.status = any (
      case old.status
        when 'PENDING' then '{RUNNING, CANCELLED}'::cortex.job_status[]
        when 'RUNNING' then '{COMPLETED, FAILED, WAITING_FOR_APPROVAL, RETRY, CANCELLED}'
        when 'RETRY' then '{RUNNING, CANCELLED, FAILED}'
        when 'WAITING_FOR_APPROVAL' then '{RUNNING, FAILED, CANCELLED}'
        else '{}'
      end))
  execute function cortex.refuse_transition();

create function cortex.refuse_payload() returns trigger language plpgsql as $$
begin
  raise exception 'The payload of job % never changes. Submit a new job instead.', old.id using errcode = 'check_violation';
end $$;
create trigger job_payload before update of payload on cortex.job
  for each row when (new.payload is distinct from old.payload)
  execute function cortex.refuse_payload();

create function cortex.refuse_other_run() returns trigger language plpgsql as $$
begin
  raise exception 'Job % has the open run %, which cannot be replaced.', old.id, old.run_id using errcode = 'check_violation';
end $$;
create trigger job_other_run before update of run_id on cortex.job
  for each row when (new.status = 'RUNNING' and old.status = 'RUNNING' and new.run_id is distinct from old.run_id)
  execute function cortex.refuse_other_run();

-- Rules between fields. As check constraints each would be read anew for every checkpoint, which changes none of these fields,
-- and a lone agent would wait for a tenth longer.
create function cortex.refuse_unsound() returns trigger language plpgsql as $$
declare
  _rule text := case
    when new.retry_count not between 0 and new.max_retries then 'retry_count_within_max'
    when (new.status = 'RUNNING') <> (new.run_id is not null) then 'run_id_exactly_when_running'
    when new.status <> 'RUNNING' and new.worker_id is not null then 'worker_only_when_running'
    when (new.status = 'RETRY') <> (new.next_retry_at is not null) then 'next_retry_at_exactly_in_retry'
    when (new.status = 'RETRY') <> (new.wait_reason is not null) then 'wait_reason_exactly_in_retry'
    when (new.status = 'WAITING_FOR_APPROVAL') <> (new.approval_token is not null) then 'approval_token_exactly_when_waiting'
    when (new.status = 'WAITING_FOR_APPROVAL') <> (new.approval_expires_at is not null) then 'approval_expiry_exactly_when_waiting'
    when (new.status = 'FAILED') <> (new.error_message is not null) then 'error_message_exactly_when_failed'
    else 'finished_at_exactly_when_terminal'
  end;
begin
  raise exception 'Job % violates the rule "%".', new.id, _rule
    using errcode = 'check_violation', constraint = _rule, schema = 'cortex', table = 'job';
end $$;
create trigger job_sound after insert or update of
  status, retry_count, max_retries, run_id, worker_id, next_retry_at, wait_reason, approval_token, approval_expires_at,
  error_message, finished_at
  on cortex.job
  for each row when (
    new.retry_count not between 0 and new.max_retries
    or (new.status = 'RUNNING') <> (new.run_id is not null)
    or (new.status <> 'RUNNING' and new.worker_id is not null)
    or (new.status = 'RETRY') <> (new.next_retry_at is not null)
    or (new.status = 'RETRY') <> (new.wait_reason is not null)
    or (new.status = 'WAITING_FOR_APPROVAL') <> (new.approval_token is not null)
    or (new.status = 'WAITING_FOR_APPROVAL') <> (new.approval_expires_at is not null)
    or (new.status = 'FAILED') <> (new.error_message is not null)
    or (new.status in ('COMPLETED', 'FAILED', 'CANCELLED')) <> (new.finished_at is not null))
  execute function cortex.refuse_unsound();

-- A statement of ours always counts the revision up; one that does not is raw SQL, and is completed.
create function cortex.complete_raw_update() returns trigger language plpgsql as $$
begin
  new.revision := old.revision + 1;
  new.cause := 'sql';
  new.actor := session_user;
  new.note := null;
  if new.updated_at = old.updated_at then
    new.updated_at := cortex.now();
  end if;
  if new.finished_at is null and new.status in ('COMPLETED', 'FAILED', 'CANCELLED') then
    new.finished_at := cortex.now();
  end if;
  return new;
end $$;
create trigger job_raw_update before update of status on cortex.job
  for each row when (new.status <> old.status and new.revision = old.revision)
  execute function cortex.complete_raw_update();

create function cortex.refuse_change() returns trigger language plpgsql as $$
begin
  raise exception 'Rows of % are never changed or deleted.', tg_table_name using errcode = 'check_violation';
end $$;

create function cortex.refuse_while_job_exists() returns trigger language plpgsql as $$
begin
  if exists (select 1 from cortex.job where id = old.job_id) then
    raise exception 'Rows of % go only with their whole job.', tg_table_name using errcode = 'check_violation';
  end if;
  return old;
end $$;

create trigger job_no_truncate before truncate on cortex.job execute function cortex.refuse_change();
create trigger history_no_update before update on cortex.job_history for each row execute function cortex.refuse_change();
create trigger history_no_delete before delete on cortex.job_history
  for each row execute function cortex.refuse_while_job_exists();
create trigger history_no_truncate before truncate on cortex.job_history execute function cortex.refuse_change();
create trigger audit_no_update before update or delete on cortex.audit_log
  for each row execute function cortex.refuse_change();
create trigger audit_no_truncate before truncate on cortex.audit_log execute function cortex.refuse_change();

create function cortex.refuse_closed_run() returns trigger language plpgsql as $$
begin
  raise exception 'Run % is closed as %; a closed run never changes.', old.id, old.status using errcode = 'check_violation';
end $$;
-- Afterwards: a trigger that comes before makes PostgreSQL lock each row first, and write that down.
create trigger run_write_once after update on cortex.job_run
  for each row when (old.status <> 'RUNNING')
  execute function cortex.refuse_closed_run();

create function cortex.refuse_closing_by_hand() returns trigger language plpgsql as $$
begin
  raise exception 'Run % closes only with its job: change job.status.', old.id using errcode = 'check_violation';
end $$;
create trigger run_closed_by_hand after update of status on cortex.job_run
  for each row when (old.status = 'RUNNING' and new.status <> old.status and pg_trigger_depth() = 0)
  execute function cortex.refuse_closing_by_hand();

create function cortex.refuse_loose_run() returns trigger language plpgsql as $$
begin
  if exists (select 1 from cortex.job where id = new.job_id and run_id = new.id) then
    return new;
  end if;
  raise exception 'A run opens only with its job: set job.status to RUNNING and job.run_id to its id.'
    using errcode = 'check_violation';
end $$;
create trigger run_no_insert before insert on cortex.job_run
  for each row when (pg_trigger_depth() = 0)
  execute function cortex.refuse_loose_run();
create trigger run_no_delete before delete on cortex.job_run
  for each row execute function cortex.refuse_while_job_exists();
create trigger run_no_truncate before truncate on cortex.job_run execute function cortex.refuse_change();

-- ---------------------------------------------------------------------------
-- What follows from a change of a job
-- ---------------------------------------------------------------------------

-- Of the entries with one serial key, the first is ready while no worker runs that key; all others are blocked.
-- Take the locks first, then read: a statement's snapshot is older than the locks that it waits for.
create function cortex.settle_serial_keys(_tenants uuid[], _keys text[]) returns void language plpgsql
  set enable_seqscan = off
as $$
declare
  _key record;
begin
  perform cortex.lock_serial_keys(_tenants, _keys);
  for _key in select distinct tenant, key from unnest(_tenants, _keys) as k(tenant, key) loop
    perform cortex.settle_serial_key(_key.tenant, _key.key);
  end loop;
end $$;

-- In sorted order, on 1024 stripes: ten thousand keys need no more locks than that.
create function cortex.lock_serial_keys(_tenants uuid[], _keys text[]) returns void language plpgsql as $$
begin
  perform pg_advisory_xact_lock(1129270867, stripe) from (
    select distinct mod(hashtext(tenant::text || key), 1024) as stripe
    from unnest(_tenants, _keys) as k(tenant, key)
    order by 1) s;
end $$;

create function cortex.settle_serial_key(_tenant uuid, _key text) returns void language plpgsql as $$
declare
  _ready cortex.queue_entry;
  _first cortex.queue_entry;
begin
  select * into _ready from cortex.queue_entry
    where tenant_id = _tenant and serial_key = _key and state = 'ready' for update skip locked;
  -- A ready entry that is locked is being claimed, or changed by someone who will settle after us.
  if not found and exists (
      select 1 from cortex.queue_entry where tenant_id = _tenant and serial_key = _key and state = 'ready') then
    return;
  end if;
  if exists (
      select 1 from cortex.job_run
      where tenant_id = _tenant and serial_key = _key and status = 'RUNNING' and worker_id is not null) then
    return;
  end if;
  select * into _first from cortex.queue_entry
    where tenant_id = _tenant and serial_key = _key and state in ('ready', 'blocked')
    order by rank, position, created_at, job_id limit 1
    for update skip locked;
  if _first.job_id is null or _first.job_id = _ready.job_id then
    return;
  end if;
  update cortex.queue_entry set state = 'blocked' where job_id = _ready.job_id;
  update cortex.queue_entry set state = 'ready' where job_id = _first.job_id;
  perform pg_notify('cortex', 'ready:' || _first.queue);
end $$;

-- Whether a job waits among those of its tenant alone, because that tenant is steered or the queue shares fairly.
create function cortex.has_own_lane(_queue text, _tenant uuid) returns boolean language sql stable as $$
  select _queue <> 'cortex' and exists (
    select 1 from cortex.control
    where (scope = 'tenant' and name = _tenant::text and (paused or max_running is not null)) or (scope = 'queue' and name = _queue and fair_share))
$$;

-- One statement: a lone job that is submitted while everything rests waits for each that is started.
create function cortex.job_inserted() returns trigger language plpgsql as $$
declare
  _keyed boolean;
  _by_tenant boolean := exists (select 1 from cortex.control where scope = 'tenant' or fair_share);
begin
  with history as (
    insert into cortex.job_history (job_id, revision, new_status, cause, actor, created_at)
    select id, revision, status, cause, actor, created_at from new_job
  ), entry as (
    insert into cortex.queue_entry
      (id, job_id, tenant_id, queue, job_type, state, rank, position, created_at, due_at, serial_key, by_tenant)
    select coalesce(worker_job_id, nextval('cortex.queue_entry_id')), id, tenant_id, queue, job_type,
      case
        when run_at > cortex.now() then 'later'::cortex.entry_state
        when serial_key is not null then 'blocked'
        else 'ready'
      end,
      -priority, position, created_at, coalesce(run_at, created_at), serial_key,
      _by_tenant and cortex.has_own_lane(queue, tenant_id)
    from new_job
  ), told as materialized (
    select pg_notify('cortex', 'ready:' || queue) from new_job
    where serial_key is null and (run_at is null or run_at <= cortex.now()) group by queue
  )
  select bool_or(serial_key is not null) into _keyed from new_job where (select count(*) from told) >= 0;

  if _keyed then
    perform cortex.settle_serial_keys(array_agg(tenant_id), array_agg(serial_key))
      from new_job where serial_key is not null;
  end if;
  return null;
end $$;
create trigger job_inserted after insert on cortex.job
  referencing new table as new_job
  for each statement execute function cortex.job_inserted();

-- All that follows, in one function: a lone agent waits for whatever is called when it saves a checkpoint.
-- A claim may take one run over and open others in the same statement.
-- Rows are found by arrays of ids, which only the primary keys can serve: whatever the planner believed about the size of a
-- table when it made the plan that the session keeps, it cannot have chosen to read the whole table for each batch.
-- One small statement for each consequence, run only when there is one: starting a statement costs more than a row.
-- (`status = 'RUNNING'` would let it take the index of open runs, which holds all that have closed since the last vacuum.)
-- What is joined is then small on both sides, so it is hashed, always: `finish`, inside of which this is called, forbids that.
create function cortex.job_updated() returns trigger language plpgsql
  set enable_seqscan = off set enable_hashjoin = on set enable_nestloop = off set plan_cache_mode = force_generic_plan
as $$
declare
  _waited uuid[];
  _ran uuid[];
  _started boolean;
  _returned boolean;
  _failed boolean;
  _cancelled boolean;
  _audited boolean;
  _keyed boolean;
  _grouped boolean;
  _ended uuid[];
  _undone uuid[];
  _suspended uuid[];
  _parents uuid[];
begin
  -- Runs that go on, as after every checkpoint: seen by one small question, without a join.
  if not exists (select 1 from new_job where status <> 'RUNNING' or cost_cents > 0)
    and not exists (select 1 from old_job where status <> 'RUNNING')
  then
    return null;
  end if;
  -- Costs come first: whoever changes a control or reserves a queue takes the lock 0 of steering before those of serial keys.
  -- Growth is what is new less what was old, by job: one sort, and no join.
  if exists (select 1 from new_job where cost_cents > 0) then
    perform cortex.count_costs(array_agg(tenant_id), array_agg(job_type), array_agg(cents)) from (
      select tenant_id, job_type, sum(cents)::bigint as cents from (
        select id, tenant_id, job_type, cost_cents as cents from new_job where cost_cents > 0
        union all
        select id, tenant_id, job_type, -cost_cents from old_job where cost_cents > 0) both_sides
      group by id, tenant_id, job_type
      having sum(cents) > 0) grown
    having count(*) > 0;
  end if;
  if not exists (select 1 from new_job where status <> 'RUNNING') and not exists (select 1 from old_job where status <> 'RUNNING')
  then
    return null;
  end if;
  select array_agg(n.id) filter (where o.status = 'PENDING' or o.status = 'RETRY'),
      array_agg(n.id) filter (where o.status = 'RUNNING'),
      bool_or(n.status = 'RUNNING'),
      bool_or(n.status = 'RETRY'),
      bool_or(n.status = 'FAILED' and n.note is not null),
      bool_or(n.status = 'CANCELLED'),
      bool_or((n.status = 'COMPLETED' or n.status = 'CANCELLED') and n.queue <> 'cortex'),
      bool_or(n.serial_key is not null),
      bool_or(n.group_id is not null),
      array_agg(n.id) filter (where n.finished_at is not null),
      array_agg(n.id) filter (where n.status = 'FAILED' or n.status = 'CANCELLED'),
      array_agg(n.id) filter (where n.wait_reason = 'child'),
      array_agg(n.parent_id) filter (where n.finished_at is not null and n.parent_id is not null)
    into _waited, _ran, _started, _returned, _failed, _cancelled, _audited, _keyed, _grouped, _ended, _undone, _suspended, _parents
    from new_job n join old_job o using (id)
    where n.status <> o.status;
  if _keyed is null then
    return null;
  end if;

  if _grouped and _ended is not null then
    perform cortex.members_ended(_ended, array_agg(tenant_id), array_agg(serial_key))
      from new_job where serial_key is not null and status <> 'RUNNING';
  end if;
  if _waited is not null then
    delete from cortex.queue_entry where job_id = any (_waited);
  end if;
  if _started then
    insert into cortex.job_run
      (id, job_id, attempt, worker_id, claimed_together, tenant_id, queue, job_type, serial_key, template_id, params_snapshot,
       started_at)
    select run_id, id, attempt, worker_id, coalesce(claimed_together, 1), tenant_id, queue, job_type, serial_key, template_id,
      payload, updated_at
    from new_job
    where status = 'RUNNING' and (_ran is null or id <> all (_ran))
      and note ->> 'claimed_as' is null;  -- One that is taken over has its run already.
  end if;
  if _ran is not null then
    update cortex.job_run r
    set finished_at = c.updated_at,
      error = case when c.status = 'FAILED' or c.status = 'RETRY' then c.error ->> 'message' end,
      closed_by = coalesce(c.actor, c.cause),
      exit_code = (c.note -> 'run' ->> 'exit_code')::int,
      log_path = c.note -> 'run' ->> 'log_path',
      artifacts = coalesce(c.note -> 'run' -> 'artifacts', r.artifacts),
      status = case
        when c.status = 'COMPLETED' then 'COMPLETED'::cortex.run_status
        when c.status = 'CANCELLED' then 'CANCELLED'
        when c.status = 'WAITING_FOR_APPROVAL' then 'WAITING'
        when c.wait_reason in ('sleep', 'child') then 'SLEEPING'
        when c.wait_reason in ('interrupted', 'handed_back') then 'INTERRUPTED'
        else 'FAILED'
      end
    from new_job c
    where r.job_id = any (_ran) and r.job_id = c.id and r.finished_at is null;
  end if;
  if _returned then
    insert into cortex.queue_entry
      (id, job_id, tenant_id, queue, job_type, state, rank, position, created_at, due_at, serial_key, alone, by_tenant)
    select coalesce(worker_job_id, nextval('cortex.queue_entry_id')), id, tenant_id, queue, job_type,
      case
        when next_retry_at > cortex.now() then 'later'::cortex.entry_state
        when serial_key is not null then 'blocked'
        else 'ready'
      end,
      -priority, position, created_at, next_retry_at, serial_key, wait_reason = 'worker_lost',
      cortex.has_own_lane(queue, tenant_id)
    from new_job
    where status = 'RETRY' and id = any (_ran);
    perform pg_notify('cortex', 'ready:' || queue) from new_job
      where status = 'RETRY' and id = any (_ran) and next_retry_at <= cortex.now() and serial_key is null group by queue;
  end if;
  if _cancelled then
    perform pg_notify('cortex', 'cancel:' || o.worker_id) from new_job n join old_job o using (id)
      where n.status = 'CANCELLED' and o.worker_id is not null group by o.worker_id;
  end if;

  if (_ran is not null or _cancelled) and exists (select 1 from cortex.direct_reservation where status = 'ACTIVE') then
    perform cortex.release_reservations(array(select id from new_job where status <> 'RUNNING'));
  end if;
  if _ran is not null and exists (select 1 from cortex.control where max_running is not null) then
    perform pg_notify('cortex', 'ready:' || queue) from new_job where status <> 'RUNNING' group by queue;
  end if;

  insert into cortex.job_history
    (job_id, revision, previous_status, new_status, cause, actor, run_id, metadata, created_at)
  select n.id, n.revision, o.status, n.status, n.cause, n.actor, coalesce(n.run_id, o.run_id),
    case
      when n.status = 'FAILED' then coalesce(n.note, '{}') || jsonb_build_object('error_message', n.error_message)
      when n.status = 'RETRY' then coalesce(n.note, '{}') || jsonb_build_object(
        'retry_count', n.retry_count, 'next_retry_at', cortex.iso(n.next_retry_at), 'wait_reason', n.wait_reason)
      else n.note
    end,
    n.updated_at
  from new_job n join old_job o using (id)
  where n.status <> o.status;

  if _audited then
    insert into cortex.audit_log (at, tenant_id, actor, action, object_type, object_id, reason)
    select n.updated_at, n.tenant_id, n.actor, case when n.status = 'COMPLETED' then 'JOB_COMPLETED' else 'JOB_CANCELLED' end,
      'job', n.id::text, n.note ->> 'reason'
    from new_job n join old_job o using (id)
    where n.status <> o.status and (n.status = 'COMPLETED' or n.status = 'CANCELLED') and n.queue <> 'cortex';
  end if;

  if _keyed then
    -- Before a chained retry takes some of them: all locks of a transaction in one order.
    perform cortex.lock_serial_keys(array_agg(n.tenant_id), array_agg(n.serial_key))
      from new_job n join old_job o using (id)
      where n.serial_key is not null and n.status <> o.status and n.status <> 'RUNNING';
  end if;
  if _failed then
    perform cortex.record_exhausted(array_agg(n.id)) from new_job n join old_job o using (id)
      where n.status = 'FAILED' and o.status <> 'FAILED' and n.note ->> 'exhausted' = 'true';
    perform cortex.chain(array_agg(n.id)) from new_job n join old_job o using (id)
      where n.status = 'FAILED' and o.status <> 'FAILED' and n.note ? 'retry_as';
  end if;
  if _keyed then
    perform cortex.settle_serial_keys(array_agg(n.tenant_id), array_agg(n.serial_key))
      from new_job n join old_job o using (id)
      where n.serial_key is not null and n.status <> o.status and n.status <> 'RUNNING';
  end if;
  if _suspended is not null then
    perform cortex.look_for_ended_children(_suspended);
  end if;
  if _parents is not null then
    perform cortex.make_due(_parents);
  end if;
  if _undone is not null then
    perform cortex.ask_to_cancel_children(_undone);
  end if;
  if _ended is not null and exists (select 1 from cortex.webhook_endpoint where enabled) then
    perform cortex.tell_webhooks(_ended);
  end if;
  return null;
end $$;
create trigger job_updated after update on cortex.job
  referencing old table as old_job new table as new_job
  for each statement execute function cortex.job_updated();

create function cortex.record_exhausted(_jobs uuid[]) returns void language sql as $$
  insert into cortex.audit_log (tenant_id, actor, action, object_type, object_id, details)
  select tenant_id, actor, 'JOB_EXHAUSTED_RETRIES', 'job', id::text,
    jsonb_build_object('job_type', job_type, 'retry_count', retry_count, 'error_message', error_message)
  from cortex.job where id = any (_jobs);
$$;

-- The retry of a job that ended: a new job with the same work, linked by retry_of, at most one for each. It starts anew, so
-- without a checkpoint, in the same place of its family; what was asked for under a grant stays so.
create function cortex.chain(_jobs uuid[]) returns void language plpgsql as $$
begin
  insert into cortex.job
    (id, tenant_id, agent_id, job_type, queue, priority, payload, retry_count, max_retries, retry_policy, run_at,
     timeout_seconds, serial_key, group_id, template_id, schedule_id, request_id, trace_id, parent_id, cancel_with_parent,
     session_id, created_by, retry_of, tags, cause, actor)
  select (note ->> 'retry_as')::uuid, tenant_id, agent_id, job_type, queue, priority, payload, retry_count + 1, max_retries,
    retry_policy, updated_at + (note ->> 'retry_delay_seconds')::double precision * interval '1 second',
    timeout_seconds, serial_key, group_id, template_id, schedule_id, request_id, trace_id, parent_id, cancel_with_parent,
    session_id, created_by, id, tags, 'retry', actor
  from cortex.job where id = any (_jobs)
  on conflict (retry_of) where retry_of is not null do nothing;
end $$;

create function cortex.job_deleted() returns trigger language plpgsql
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
declare
  _jobs uuid[] := array(select id from old_job);
begin
  delete from cortex.job_history where job_id = any (_jobs);
  delete from cortex.job_run where job_id = any (_jobs);
  delete from cortex.queue_entry where job_id = any (_jobs);
  perform cortex.settle_serial_keys(array_agg(tenant_id), array_agg(serial_key))
    from old_job where serial_key is not null having count(*) > 0;
  return null;
end $$;
create trigger job_deleted after delete on cortex.job
  referencing old table as old_job
  for each statement execute function cortex.job_deleted();

-- ---------------------------------------------------------------------------
-- What workers and programs call
-- ---------------------------------------------------------------------------

-- Applies a batch of transitions out of RUNNING, each fenced by its run id; one may bring its job's last checkpoint.
create function cortex.finish(_actor text, _batch jsonb) returns setof uuid language plpgsql
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
begin
  return query
    update cortex.job j
    set status = c.status,
      output = c.output,
      error = c.error,
      error_message = c.error_message,
      wait_reason = c.wait_reason,
      next_retry_at = case when c.status = 'RETRY' then cortex.now() + c.delay_seconds * interval '1 second' end,
      worker_job_id = case when c.status = 'RETRY' then nextval('cortex.queue_entry_id') end,
      retry_count = c.retry_count,
      crash_count = c.crash_count,
      cost_cents = j.cost_cents + coalesce(c.cost_cents, 0),
      run_id = null,
      worker_id = null,
      claimed_together = null,
      updated_at = greatest(cortex.now(), j.updated_at),
      finished_at = case when c.status <> 'RETRY' then greatest(cortex.now(), j.updated_at) end,
      revision = j.revision + 1,
      cause = c.cause,
      actor = _actor,
      note = c.note,
      checkpoint = coalesce(c.checkpoint::json, j.checkpoint),
      checkpoint_added = case when c.checkpoint is null then j.checkpoint_added end,
      checkpoint_id = coalesce(c.checkpoint_id, j.checkpoint_id)
    from jsonb_to_recordset(_batch) as c(
      job_id uuid, run_id uuid, status cortex.job_status, output jsonb, error jsonb, error_message text, wait_reason text,
      delay_seconds double precision, retry_count int, crash_count int, cost_cents bigint, cause text, note jsonb,
      checkpoint text, checkpoint_id uuid)
    where j.id = c.job_id and j.run_id = c.run_id
    returning j.id;
end $$;

-- Makes ready what has fallen due, in small batches; returns how many.
create function cortex.promote_due(_limit int) returns int language plpgsql set enable_seqscan = off as $$
declare
  _due uuid[];
begin
  _due := array(
    select job_id from cortex.queue_entry
    where state = 'later' and due_at <= cortex.now()
    order by due_at limit _limit
    for update skip locked);
  update cortex.queue_entry
    set state = case when serial_key is null then 'ready'::cortex.entry_state else 'blocked' end
    where job_id = any (_due) and state = 'later';
  perform pg_notify('cortex', 'ready:' || queue) from cortex.queue_entry
    where job_id = any (_due) and serial_key is null group by queue;
  perform cortex.settle_serial_keys(array_agg(tenant_id), array_agg(serial_key)) from cortex.queue_entry
    where job_id = any (_due) and serial_key is not null having count(*) > 0;
  return cardinality(_due);
end $$;

-- Refuses a job of an agent or a tenant whose budget refuses and is spent.
create function cortex.refuse_spent_budget(_job_type text, _tenant uuid) returns void language plpgsql stable as $$
declare
  _budget record;
begin
  for _budget in
    select c.scope, c.budget_cents, cortex.spent_cents(c.scope, c.name) as spent_cents,
      case c.scope when 'tenant' then (select t.name from cortex.tenant t where t.id = _tenant) else c.name end as label
    from cortex.control c
    where c.on_exhausted = 'refuse'
      and ((c.scope = 'agent' and c.name = _job_type) or (c.scope = 'tenant' and c.name = _tenant::text))
    order by c.scope
  loop
    continue when _budget.spent_cents < _budget.budget_cents;
    raise exception '% "%" has spent % of its budget of % cents, so no new jobs are taken for it; those that wait go on.',
      initcap(_budget.scope), _budget.label, to_char(_budget.spent_cents, 'FM999,999,999,999,999,990'),
      to_char(_budget.budget_cents, 'FM999,999,999,999,999,990')
      using errcode = 'insufficient_privilege',
        hint = format('To raise the budget: cortex budgets set CENTS --%s %L', _budget.scope, _budget.label);
  end loop;
end $$;

-- Gives a job its key. The answer is the job that has it: the new one, or with unsafe_dedupe the one that is there. A waiting
-- job that had it is cancelled, and with preserve_run_at the new one is planned for the same time.
create function cortex.take_job_key(
  _tenant uuid, _key text, _mode text, _id uuid, _actor text, inout _run_at timestamptz, out _holder uuid
) language plpgsql as $$
declare
  _there record;
begin
  insert into cortex.job_key as k (tenant_id, job_key, job_id) values (_tenant, _key, _id)
    on conflict (tenant_id, job_key) do update set job_key = excluded.job_key
    returning k.job_id into _holder;
  if _holder = _id then
    return;
  end if;
  select status, run_at into _there from cortex.job where id = _holder;
  if _mode = 'unsafe_dedupe' and _there.status not in ('COMPLETED', 'FAILED', 'CANCELLED') then
    return;
  end if;
  update cortex.job_key set job_id = _id where tenant_id = _tenant and job_key = _key;
  if _there.status = 'PENDING' then
    -- The entry before the job, as a claim does.
    perform 1 from cortex.queue_entry where job_id = _holder for update;
    update cortex.job
    set status = 'CANCELLED', worker_job_id = null, cause = 'replace', revision = revision + 1, actor = _actor,
      updated_at = greatest(cortex.now(), updated_at), finished_at = greatest(cortex.now(), updated_at),
      note = jsonb_build_object('reason', 'replaced by ' || _id)
    where id = _holder and status = 'PENDING';
    if found and _mode = 'preserve_run_at' then
      _run_at := coalesce(_there.run_at, _run_at);
    end if;
  end if;
  _holder := _id;
end $$;

-- For triggers and other languages: submits one job in the caller's transaction.
create function cortex.add_job(
  job_type text,
  payload jsonb default '{}',
  queue text default null,
  priority int default 0,
  run_at timestamptz default null,
  serial_key text default null,
  tenant text default 'default',
  tags jsonb default '[]',
  max_retries int default null,
  created_by text default null,
  job_key text default null,
  key_mode text default 'replace'
) returns uuid language plpgsql as $$
declare
  _agent cortex.agent;
  _tenant uuid;
  _id uuid := cortex.uuid7();
  _actor text := coalesce(add_job.created_by, session_user);
  _run_at timestamptz := add_job.run_at;
  _holder uuid;
begin
  select * into _agent from cortex.agent a where a.job_type = add_job.job_type;
  if not found then
    raise exception 'There is no agent "%".', add_job.job_type
      using errcode = 'foreign_key_violation', hint = 'Start a plane or a worker that has it, or correct the name.';
  end if;
  if add_job.queue = 'cortex' or starts_with(add_job.job_type, 'cortex.') then
    raise exception 'The queue "cortex" and agents whose names begin with "cortex." are the plane''s own.'
      using errcode = 'invalid_parameter_value', hint = 'Choose another name.';
  end if;
  select id into _tenant from cortex.tenant t where t.name = add_job.tenant;
  if not found then
    raise exception 'There is no tenant "%".', add_job.tenant using errcode = 'foreign_key_violation';
  end if;
  if add_job.key_mode is null or add_job.key_mode not in ('replace', 'preserve_run_at', 'unsafe_dedupe') then
    raise exception 'key_mode must be one of replace, preserve_run_at, unsafe_dedupe, not "%".', add_job.key_mode
      using errcode = 'invalid_parameter_value';
  end if;
  if add_job.job_key !~ '\S' or length(add_job.job_key) > 200 then
    raise exception 'job_key must be text of 1 to 200 characters, not "%".', left(add_job.job_key, 80)
      using errcode = 'invalid_parameter_value';
  end if;
  perform cortex.refuse_spent_budget(add_job.job_type, _tenant);
  if add_job.job_key is not null then
    select k._run_at, k._holder into _run_at, _holder
      from cortex.take_job_key(_tenant, add_job.job_key, add_job.key_mode, _id, _actor, _run_at) k;
    if _holder <> _id then
      return _holder;
    end if;
  end if;
  insert into cortex.job (id, tenant_id, agent_id, job_type, queue, payload, priority, run_at, serial_key, tags, max_retries,
    job_key, created_by, cause, actor)
  values (_id, _tenant, _agent.id, add_job.job_type,
    coalesce(add_job.queue, _agent.skill_config ->> 'queue', 'default'), add_job.payload, add_job.priority, _run_at,
    add_job.serial_key, add_job.tags,
    coalesce(add_job.max_retries, (_agent.skill_config -> 'retry' ->> 'max_retries')::int, 3),
    add_job.job_key, add_job.created_by, 'submit', _actor);
  return _id;
end $$;
comment on function cortex.add_job is
  'Submits one job in the caller''s transaction and answers with its id. The agent must be registered.';

-- ---------------------------------------------------------------------------
-- What people see who look at the tables
-- ---------------------------------------------------------------------------

comment on table cortex.migration is 'The numbered migrations that this database has had.';
comment on column cortex.migration.version is 'Number of the file.';
comment on column cortex.migration.name is 'Name of the file.';
comment on column cortex.migration.checksum is 'SHA-256 of its text.';
comment on column cortex.migration.applied_at is 'When it was applied.';

comment on table cortex.tenant is 'Who owns jobs. The tenant named default always exists.';
comment on column cortex.tenant.id is 'UUIDv7.';
comment on column cortex.tenant.name is 'Unique name.';
comment on column cortex.tenant.created_at is 'When it was added.';

comment on table cortex.agent is 'The kinds of work. A plane or worker that starts writes the agents that it has in code.';
comment on column cortex.agent.id is 'UUIDv7.';
comment on column cortex.agent.job_type is 'The name under which jobs ask for this agent.';
comment on column cortex.agent.skill_config is 'Queue, retry policy, crash policy and limits, as declared in code.';
comment on column cortex.agent.created_at is 'When it was first seen.';
comment on column cortex.agent.updated_at is 'When its configuration last changed.';

comment on table cortex.worker is 'Every start of a worker, under an id of its own.';
comment on column cortex.worker.id is 'UUIDv7, new at every start.';
comment on column cortex.worker.name is 'Host and process, for people.';
comment on column cortex.worker.status is 'LIVE until its lease runs out (LOST) or it leaves in order (STOPPED). Never back.';
comment on column cortex.worker.queues is 'The queues that it reads.';
comment on column cortex.worker.job_types is 'The agents that it has.';
comment on column cortex.worker.concurrency is 'How many jobs it runs at a time.';
comment on column cortex.worker.lease_seconds is 'How long it counts as alive after a heartbeat.';
comment on column cortex.worker.started_at is 'When it registered.';
comment on column cortex.worker.heartbeat_at is 'Its last heartbeat.';
comment on column cortex.worker.lease_until is 'Without a heartbeat by then, any other worker may declare it LOST.';
comment on column cortex.worker.ended_at is 'When it left, or when the last of its lost runs was rescued.';

comment on table cortex.job is 'Jobs: one piece of work each, permanent, the source of truth.';
comment on column cortex.job.id is 'UUIDv7, made by the submitter.';
comment on column cortex.job.tenant_id is 'Who owns it.';
comment on column cortex.job.agent_id is 'The agent that runs it.';
comment on column cortex.job.job_type is 'The name of that agent.';
comment on column cortex.job.queue is 'Where it waits.';
comment on column cortex.job.status is 'Where it stands; only the thirteen listed transitions pass.';
comment on column cortex.job.priority is 'Higher runs first.';
comment on column cortex.job.position is 'Order inside a priority, spaced by 100; lower runs first.';
comment on column cortex.job.payload is 'The arguments of the handler by name. Never changes.';
comment on column cortex.job.output is 'What the handler returned.';
comment on column cortex.job.error is 'Type, message and traceback of the last failure.';
comment on column cortex.job.error_message is 'Why it FAILED; set exactly then.';
comment on column cortex.job.checkpoint is 'The full snapshot of its progress, as it was last written whole.';
comment on column cortex.job.retry_count is 'Retries spent so far.';
comment on column cortex.job.max_retries is 'Retries allowed, 0 to 100.';
comment on column cortex.job.retry_policy is 'A policy for this job alone; null means the agent''s.';
comment on column cortex.job.attempt is 'Number of the latest run.';
comment on column cortex.job.crash_count is 'How often a worker died while it ran this job alone.';
comment on column cortex.job.next_retry_at is 'When it is due again; set exactly in RETRY.';
comment on column cortex.job.run_at is 'Not before this time.';
comment on column cortex.job.timeout_seconds is 'A limit for this job alone; null means the agent''s.';
comment on column cortex.job.wait_reason is 'Why it is in RETRY: retry, worker_lost, interrupted, handed_back, sleep, child.';
comment on column cortex.job.run_id is 'The open run, the fence of every write; set exactly in RUNNING.';
comment on column cortex.job.worker_id is 'The worker that owns the open run; null while none does.';
comment on column cortex.job.claimed_together is 'How many jobs were claimed with it.';
comment on column cortex.job.approval_token is 'Hash of the token of the open approval; set exactly in WAITING_FOR_APPROVAL.';
comment on column cortex.job.approval_expires_at is 'When that approval expires; set exactly in WAITING_FOR_APPROVAL.';
comment on column cortex.job.worker_job_id is 'Soft reference to its queue entry.';
comment on column cortex.job.job_key is 'Key by which a waiting job is found again.';
comment on column cortex.job.serial_key is 'Of the jobs with one key at most one runs.';
comment on column cortex.job.group_id is 'The group that it belongs to.';
comment on column cortex.job.template_id is 'The template that it was made from.';
comment on column cortex.job.schedule_id is 'The schedule that fired it.';
comment on column cortex.job.parent_id is 'The job that called it.';
comment on column cortex.job.session_id is 'The conversation that started it.';
comment on column cortex.job.created_by is 'Who submitted it.';
comment on column cortex.job.retry_of is 'The job that this one retries; unique.';
comment on column cortex.job.cost_cents is 'What it has cost.';
comment on column cortex.job.tags is 'Labels, a JSON array of texts.';
comment on column cortex.job.revision is 'Counted up by every transition.';
comment on column cortex.job.cause is 'Why the last transition was made.';
comment on column cortex.job.actor is 'Who or what made it.';
comment on column cortex.job.note is 'Details of it, copied into the history.';
comment on column cortex.job.created_at is 'When it was submitted.';
comment on column cortex.job.queued_at is 'When it entered the queue.';
comment on column cortex.job.started_at is 'When it first ran.';
comment on column cortex.job.updated_at is 'When it last changed.';
comment on column cortex.job.finished_at is 'When it ended; set exactly in terminal states.';

comment on table cortex.job_run is 'Runs: one execution of a job by one worker. Written by the triggers of job; closed for good.';
comment on column cortex.job_run.id is 'The run id, the fence.';
comment on column cortex.job_run.job_id is 'Its job.';
comment on column cortex.job_run.attempt is 'Its number among the runs of the job.';
comment on column cortex.job_run.worker_id is 'The worker that owns it; null while none does.';
comment on column cortex.job_run.claimed_together is 'How many jobs were claimed with it; a crash counts against a job only when 1.';
comment on column cortex.job_run.tenant_id is 'Tenant of the job.';
comment on column cortex.job_run.queue is 'Queue of the job.';
comment on column cortex.job_run.job_type is 'Agent of the job.';
comment on column cortex.job_run.serial_key is 'Serial key of the job.';
comment on column cortex.job_run.template_id is 'Template that was used.';
comment on column cortex.job_run.params_snapshot is 'The payload that it ran with.';
comment on column cortex.job_run.status is 'RUNNING while open.';
comment on column cortex.job_run.started_at is 'When it opened.';
comment on column cortex.job_run.finished_at is 'When it closed.';
comment on column cortex.job_run.exit_code is 'Exit code of a command.';
comment on column cortex.job_run.error is 'Why it failed.';
comment on column cortex.job_run.artifacts is 'Files that it produced.';
comment on column cortex.job_run.log_path is 'Where its output is.';
comment on column cortex.job_run.closed_by is 'Who closed it.';

comment on table cortex.job_history is 'Every transition of every job. Written by triggers, never changed.';
comment on column cortex.job_history.id is 'Derived from job and revision.';
comment on column cortex.job_history.job_id is 'Its job.';
comment on column cortex.job_history.revision is 'Its place in the history of the job.';
comment on column cortex.job_history.previous_status is 'Null for the first.';
comment on column cortex.job_history.new_status is 'What the job became.';
comment on column cortex.job_history.cause is 'Why: submit, claim, complete, fail, cancel, rescue, …; sql for raw SQL.';
comment on column cortex.job_history.actor is 'Who or what did it.';
comment on column cortex.job_history.run_id is 'The run that it opened or closed.';
comment on column cortex.job_history.metadata is 'Details. Never a token or secret.';
comment on column cortex.job_history.created_at is 'When.';

comment on table cortex.queue_entry is 'Jobs that wait for a worker. Written by the triggers of job, deleted by the claim.';
comment on column cortex.queue_entry.id is 'What job.worker_job_id refers to.';
comment on column cortex.queue_entry.job_id is 'Its job.';
comment on column cortex.queue_entry.tenant_id is 'Tenant of the job.';
comment on column cortex.queue_entry.queue is 'Its queue.';
comment on column cortex.queue_entry.job_type is 'Its agent.';
comment on column cortex.queue_entry.state is 'ready, later (not due yet), blocked (by its serial key) or held (until it is its turn in its group).';
comment on column cortex.queue_entry.rank is 'The priority, negated, so that everything sorts upwards.';
comment on column cortex.queue_entry.position is 'Copy of the job''s.';
comment on column cortex.queue_entry.created_at is 'Copy of the job''s.';
comment on column cortex.queue_entry.due_at is 'When it is due.';
comment on column cortex.queue_entry.serial_key is 'Copy of the job''s.';
comment on column cortex.queue_entry.alone is 'Claim it with no other: it may have killed its worker.';
comment on column cortex.queue_entry.by_tenant is 'It waits among those of its tenant alone.';

comment on table cortex.audit_log is 'Who did what to which object. Never changed.';
comment on column cortex.audit_log.seq is 'The order in which entries were written.';
comment on column cortex.audit_log.at is 'When.';
comment on column cortex.audit_log.tenant_id is 'Whose object.';
comment on column cortex.audit_log.actor is 'Who.';
comment on column cortex.audit_log.action is 'What, in capitals.';
comment on column cortex.audit_log.object_type is 'Kind of object.';
comment on column cortex.audit_log.object_id is 'Which one.';
comment on column cortex.audit_log.reason is 'Why, in the words of whoever did it.';
comment on column cortex.audit_log.source is 'From where: a program, a host, an address.';
comment on column cortex.audit_log.details is 'More about it.';

comment on table cortex.control is 'What operators have set for the gate, a queue, an agent or a tenant.';
comment on column cortex.control.scope is 'gate, queue, agent or tenant.';
comment on column cortex.control.name is 'Which one; empty for the gate, the id for a tenant.';
comment on column cortex.control.paused is 'Nothing of it is claimed. For the gate: it is closed.';
comment on column cortex.control.paused_by is 'Who paused it.';
comment on column cortex.control.paused_at is 'When.';
comment on column cortex.control.pause_reason is 'Why.';
comment on column cortex.control.max_running is 'At most so many of its jobs run at a time.';
comment on column cortex.control.fair_share is 'The tenants of this queue take turns.';
comment on column cortex.control.budget_cents is 'What it may cost.';
comment on column cortex.control.on_exhausted is 'When the budget is spent: refuse new jobs, or pause.';
comment on column cortex.control.updated_by is 'Who changed it last; code for what an agent declares.';
comment on column cortex.control.updated_at is 'When.';
