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
-- Lock order everywhere: queue entry, job, run, worker last.
-- What workers call waits for no row that others have locked: it skips the row, or gives up after the lock_timeout of the function
-- and is called again with what is left.

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
  ended_at timestamptz,
  process text,
  has_room boolean not null default false
);

-- Heartbeats of workers whose own row somebody else has locked. An insert waits for nobody.
create table cortex.worker_beat (
  worker_id uuid not null,
  lease_until timestamptz not null
);
create index worker_beat_of_worker on cortex.worker_beat (worker_id);

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

-- No index here names a column that a transition changes, and more than half of each page is left free (a claim or a finish may
-- rewrite every row of a page in one transaction, and the new rows are longer than the old ones):
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
  output_blob text,
  error jsonb,
  error_message text,
  checkpoint json,
  retry_count int not null default 0,
  max_retries cortex.retries not null default 3,
  retry_policy jsonb,
  attempt cortex.tally not null default 0,
  crash_count cortex.tally not null default 0,
  failed_runs cortex.tally not null default 0,
  next_retry_at timestamptz,
  run_at timestamptz,
  timeout_seconds cortex.seconds,
  deadline_at timestamptz,
  deadline_seconds cortex.seconds,
  wait_reason text,
  run_id uuid,
  worker_id uuid,
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
  submitters jsonb check (jsonb_typeof(submitters) = 'array'),
  retry_of uuid,
  effect_root uuid,
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
) with (fillfactor = 40);

-- Columns that every successor of a job has as the job has them; see the file of successors.
-- fragment: carried
-- tenant_id, agent_id, job_type, queue, priority, payload, max_retries, retry_policy, timeout_seconds, deadline_seconds,
-- serial_key, template_id, session_id, tags
-- end

create index job_of_agent on cortex.job (agent_id, id);
create index job_of_queue on cortex.job (queue, id);
create index job_of_tenant on cortex.job (tenant_id, id);
create unique index job_retry_of on cortex.job (retry_of) where retry_of is not null;

-- Jobs by their tags. A table of its own: most jobs have none, and an index of lists cannot be read newest first.
create table cortex.job_tag (
  tag text not null,
  job_id uuid not null,
  primary key (tag, job_id)
);

-- Jobs that have a deadline and have not ended. A table of its own: an index on job would hold those that have ended too.
create table cortex.job_deadline (
  job_id uuid primary key,
  at timestamptz not null
);
create index job_deadline_next on cortex.job_deadline (at);

create type cortex.run_status as enum (
  'RUNNING', 'COMPLETED', 'FAILED', 'SKIPPED', 'CANCELLED', 'WAITING', 'SLEEPING', 'INTERRUPTED'
);

create table cortex.job_run (
  id uuid not null,
  job_id uuid not null,
  attempt int not null,
  worker_id uuid,
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
  error_details jsonb,
  artifacts jsonb not null default '[]',
  log_path text,
  closed_by text,
  primary key (job_id, id),
  constraint finished_at_exactly_when_closed check ((status = 'RUNNING') = (finished_at is null))
) with (fillfactor = 40);

-- Runs that are open. A table of its own: an index of job_run that holds open runs alone would name a column that closing a run changes,
-- and each end of a run would be a write to every index of the table instead of an update in place (HOT).
create table cortex.open_run (
  job_id uuid primary key,
  id uuid not null,
  worker_id uuid,
  tenant_id uuid not null,
  queue text not null,
  job_type text not null,
  serial_key text
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
create index open_run_of_worker on cortex.open_run (worker_id);
-- The promise of serial_key, kept by the database: one owned open run for each key.
create unique index open_run_one_for_each_serial_key on cortex.open_run (tenant_id, serial_key)
  where worker_id is not null and serial_key is not null;

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
  by_tenant boolean not null default false
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
create index queue_entry_ready on cortex.queue_entry (queue, job_type, rank, position, created_at, job_id)
  where state = 'ready' and not by_tenant;
-- The order over all queues: a worker that reads most of what waits takes the first entries, however many queues and agents there are.
create index queue_entry_ready_in_order on cortex.queue_entry (rank, position, created_at, job_id)
  where state = 'ready' and not by_tenant;
-- Only tenants that are steered one by one, and queues that share fairly, have lanes of their own.
create index queue_entry_ready_by_tenant on cortex.queue_entry (queue, job_type, tenant_id, rank, position, created_at, job_id)
  where state = 'ready' and by_tenant;
-- The order of each queue, state by state: what moves, pages and `why` read.
create index queue_entry_in_order on cortex.queue_entry (queue, state, rank, position, created_at, job_id);
create index queue_entry_ready_of_tenant on cortex.queue_entry (queue, tenant_id, rank, position, created_at, job_id)
  where state = 'ready' and by_tenant;
create index queue_entry_later on cortex.queue_entry (due_at) where state = 'later';
create index queue_entry_of_key on cortex.queue_entry (tenant_id, serial_key, rank, position, created_at, job_id)
  where serial_key is not null and state = 'blocked';
create unique index queue_entry_one_ready_for_each_key on cortex.queue_entry (tenant_id, serial_key)
  where serial_key is not null and state = 'ready';

-- How many entries each queue and each tenant has, by state, and how many jobs of each queue ask for approval. A change is added as a row, so that no two writers meet; whoever
-- looks after the plane, or finds many of them, folds changes into the counts. A reader adds up both.
create table cortex.entry_count (
  scope text not null check (scope in ('queue', 'tenant', 'asking')),
  name text not null,
  state cortex.entry_state not null,
  entries bigint not null,
  primary key (scope, name, state)
) with (fillfactor = 50);
create table cortex.entry_count_change (
  scope text not null,
  name text not null,
  state cortex.entry_state not null,
  change int not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Serial keys that the next claim settles. A mark is an insert alone: nobody waits for it, and it counts when its transaction commits.
create table cortex.key_to_settle (
  id bigint generated always as identity (sequence name cortex.key_to_settle_id) primary key,
  tenant_id uuid not null,
  serial_key text not null
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

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
  held_until timestamptz,
  hold_reason text,
  updated_by text,
  updated_at timestamptz not null default cortex.now(),
  primary key (scope, name),
  constraint paused_at_exactly_when_paused check (paused = (paused_at is not null)),
  constraint only_queues_share check (not fair_share or scope = 'queue'),
  constraint only_agents_and_tenants_have_budgets check (budget_cents is null or scope in ('agent', 'tenant')),
  constraint a_budget_says_what_happens check ((budget_cents is null) = (on_exhausted is null))
);

-- How far the jobs have been looked through for such as need mending, and when that was. One row.
create table cortex.job_reconciler (
  id integer primary key check (id = 1),
  reconciled_at timestamptz not null,
  after uuid not null
);
insert into cortex.job_reconciler (id, reconciled_at, after) values (1, 'epoch', '00000000-0000-0000-0000-000000000000');

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
  details jsonb,
  salt uuid default gen_random_uuid(),
  kept jsonb
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

create function cortex.refuse_effect_root() returns trigger language plpgsql as $$
begin
  raise exception 'The effect_root of job % never changes: the ids of its tool calls follow from it.', old.id
    using errcode = 'check_violation';
end $$;
create trigger job_effect_root before update of effect_root on cortex.job
  for each row when (new.effect_root is distinct from old.effect_root)
  execute function cortex.refuse_effect_root();

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
-- But for erasing: a person becomes a pseudonym, and words go.
create trigger history_no_update before update on cortex.job_history
  for each row when (
    (new.job_id, new.revision, new.previous_status, new.new_status, new.cause, new.run_id, new.created_at)
      is distinct from (old.job_id, old.revision, old.previous_status, old.new_status, old.cause, old.run_id, old.created_at)
    or coalesce(new.actor, '') not like 'user:erased-%'
    or (new.metadata is distinct from old.metadata and new.metadata is not null))
  execute function cortex.refuse_change();
create trigger history_no_delete before delete on cortex.job_history
  for each row execute function cortex.refuse_while_job_exists();
create trigger history_no_truncate before truncate on cortex.job_history execute function cortex.refuse_change();
-- But for erasing: words may go, the actor may become a pseudonym, and the digests of what went stay (docs/decisions/0040).
create trigger audit_no_update before update on cortex.audit_log
  for each row when (
    new.salt is not null or new.kept is null
    or (new.seq, new.at, new.tenant_id, new.action, new.object_type, new.object_id)
      is distinct from (old.seq, old.at, old.tenant_id, old.action, old.object_type, old.object_id)
    or (new.actor is distinct from old.actor and coalesce(new.actor, '') not like 'user:erased-%')
    or (new.reason is not null and new.reason is distinct from old.reason)
    or (new.source is not null and new.source is distinct from old.source)
    or (new.details is not null and new.details is distinct from old.details))
  execute function cortex.refuse_change();
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

-- What a job was born with, and how it ended, cannot be rewritten. By column lists, so that statements of ours, which set none
-- of the first, meet nothing; afterwards for the rest, so that no row is locked for it.
create function cortex.refuse_rewriting() returns trigger language plpgsql as $$
begin
  raise exception 'What job % was born with, and how it ended, never changes.', old.id using errcode = 'check_violation';
end $$;
create trigger job_born_so before update of id, tenant_id, agent_id, job_type, template_id, group_id, retry_of, created_at on cortex.job
  for each row when (
    (new.id, new.tenant_id, new.agent_id, new.job_type, new.template_id, new.group_id, new.retry_of, new.created_at)
      is distinct from (old.id, old.tenant_id, old.agent_id, old.job_type, old.template_id, old.group_id, old.retry_of, old.created_at))
  execute function cortex.refuse_rewriting();
create trigger job_ended_so after update of output, output_blob, error, error_message, started_at, finished_at, queued_at on cortex.job
  for each row when (
    old.status in ('COMPLETED', 'FAILED', 'CANCELLED')
    and (new.output, new.output_blob, new.error, new.error_message, new.started_at, new.finished_at, new.queued_at)
      is distinct from (old.output, old.output_blob, old.error, old.error_message, old.started_at, old.finished_at, old.queued_at))
  execute function cortex.refuse_rewriting();

create function cortex.refuse_revision() returns trigger language plpgsql as $$
begin
  raise exception 'The revision of job % goes up by one with each change: from %, not to %.', old.id, old.revision, new.revision
    using errcode = 'check_violation';
end $$;
create trigger job_revision after update of revision on cortex.job
  for each row when (new.revision <> old.revision and new.revision <> old.revision + 1)
  execute function cortex.refuse_revision();

-- Of what raw statements change without counting a revision.
create function cortex.touch_job() returns trigger language plpgsql as $$
begin
  update cortex.job set updated_at = greatest(cortex.now(), old.updated_at + interval '1 microsecond') where id = new.id;
  return null;
end $$;
create trigger job_touched after update of
  queue, priority, position, retry_policy, max_retries, run_at, timeout_seconds, deadline_at, job_key, serial_key, created_by, tags on cortex.job
  for each row when (new.revision = old.revision and new.updated_at = old.updated_at)
  execute function cortex.touch_job();

-- History is written by the database, with the change that it tells of.
create function cortex.refuse_told_history() returns trigger language plpgsql as $$
begin
  raise exception 'Rows of job_history are written by the database only.' using errcode = 'check_violation';
end $$;
create trigger history_no_insert before insert on cortex.job_history
  for each row when (pg_trigger_depth() = 0)
  execute function cortex.refuse_told_history();

create trigger run_params before update of params_snapshot on cortex.job_run
  for each row when (new.params_snapshot is distinct from old.params_snapshot)
  execute function cortex.refuse_change();

-- ---------------------------------------------------------------------------
-- What follows from a change of a job
-- ---------------------------------------------------------------------------

-- Of the entries with one serial key, the first is ready while no worker runs that key; all others are blocked.
--
-- A key is settled under its advisory lock, which is tried, never waited for: take the lock first, then read. Whoever does not get it
-- leaves a mark in key_to_settle, and the next claim settles the key. A submission leaves a mark and takes no lock at all: its
-- transaction is its caller's, and may stay open for long.
create function cortex.settle_serial_keys(_tenants uuid[], _keys text[]) returns void language plpgsql
  set jit = off set enable_seqscan = off
as $$
declare
  _key record;
  _room int := 500;  -- The server has room for so many locks of one transaction, and for some more.
begin
  for _key in select distinct tenant, key from unnest(_tenants, _keys) as k(tenant, key) loop
    _room := _room - 1;
    if _room >= 0 and cortex.try_serial_key(_key.tenant, _key.key) then
      perform cortex.settle_serial_key(_key.tenant, _key.key);
    else
      perform cortex.settle_later(array[_key.tenant], array[_key.key]);
    end if;
  end loop;
end $$;

create function cortex.try_serial_key(_tenant uuid, _key text) returns boolean language sql volatile
as $$ select pg_try_advisory_xact_lock(1129270867, hashtext(_tenant::text || _key)) $$;

-- The next claim after this transaction settles these keys.
create function cortex.settle_later(_tenants uuid[], _keys text[]) returns void language plpgsql
  set jit = off set enable_seqscan = off
as $$
begin
  insert into cortex.key_to_settle (tenant_id, serial_key)
    select distinct tenant, key from unnest(_tenants, _keys) as k(tenant, key);
  perform pg_notify('cortex', 'ready:' || queue) from (
    select distinct e.queue from unnest(_tenants, _keys) as k(tenant, key)
    cross join lateral (
      select queue from cortex.queue_entry
      where tenant_id = k.tenant and serial_key = k.key and serial_key is not null and state = 'blocked'
      limit 10) e) waiting;
end $$;

-- Up to where this session had read the marks a moment ago, so that it reads on from there. While somebody holds an old snapshot, marks
-- that were settled stay where they were, and whoever reads from the beginning reads them all. A setting of the session and no row:
-- that would have ever more dead versions itself. Whoever gets the session from a pooler may use it too: it is true for all.
-- [1] the place; [2] the one that is next, [3] since when: transactions that had taken a mark before it have mostly ended by then.
create function cortex.marks_read() returns numeric[] language sql stable
as $$ select coalesce(nullif(current_setting('cortex.marks_read', true), ''), '{0,0,0}')::numeric[] $$;

-- Settles up to so many of the keys that were left for later. One whose lock somebody holds keeps its mark, and delays no other.
-- Reading on, it misses a mark whose transaction took long: a look at all marks finds it.
create function cortex.settle_marked_keys(_limit int, _read_on boolean default false) returns void language plpgsql
  set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set plan_cache_mode = force_generic_plan
as $$
declare
  _read numeric[] := cortex.marks_read();
  _now numeric := extract(epoch from cortex.now());
  _after bigint := case when _read_on then _read[1] else 0 end;
  _until bigint;
  _left bigint;
  _mark record;
begin
  select case when is_called then last_value else 0 end into _until from cortex.key_to_settle_id;
  for _mark in
    select id, tenant_id, serial_key from cortex.key_to_settle where id > _after order by id for update skip locked
  loop
    if not cortex.try_serial_key(_mark.tenant_id, _mark.serial_key) then
      _left := coalesce(_left, _mark.id);
      continue;
    end if;
    perform cortex.settle_serial_key(_mark.tenant_id, _mark.serial_key);
    delete from cortex.key_to_settle where id = _mark.id;
    _limit := _limit - 1;
    if _limit <= 0 then
      _until := _mark.id;
      exit;
    end if;
  end loop;
  _until := least(_until, _left - 1);
  if _until < _read[2] then
    _read := array[least(_read[1], _until), _until, _now];
  elsif _now >= _read[3] + 0.1 then
    _read := array[_read[2], _until, _now];
  end if;
  perform set_config('cortex.marks_read', _read::text, false);
end $$;

-- While somebody holds an old snapshot, the entries of a key that were claimed since stay in its indexes: each is read once.
create function cortex.settle_serial_key(_tenant uuid, _key text) returns void language plpgsql as $$
declare
  _ready cortex.queue_entry;
  _first cortex.queue_entry;
begin
  select * into _ready from cortex.queue_entry
    where tenant_id = _tenant and serial_key = _key and serial_key is not null and state = 'ready';
  if found then
    -- One that is locked, or gone by now, is being claimed, or changed by someone who will settle after us.
    select * into _ready from cortex.queue_entry where job_id = _ready.job_id and state = 'ready' for update skip locked;
    if not found then
      return;
    end if;
  end if;
  if exists (
      select 1 from cortex.open_run
      where tenant_id = _tenant and serial_key = _key and worker_id is not null) then
    return;
  end if;
  select * into _first from cortex.queue_entry
    where tenant_id = _tenant and serial_key = _key and serial_key is not null and state = 'blocked'
    order by rank, position, created_at, job_id limit 1
    for update skip locked;
  if not found or (_ready.rank, _ready.position, _ready.created_at, _ready.job_id)
      < (_first.rank, _first.position, _first.created_at, _first.job_id) then
    return;
  end if;
  update cortex.queue_entry set state = 'blocked' where job_id = _ready.job_id;
  update cortex.queue_entry set state = 'ready' where job_id = _first.job_id;
  perform pg_notify('cortex', 'ready:' || _first.queue);
end $$;

create function cortex.entries_came() returns trigger language plpgsql set jit = off as $$
begin
  insert into cortex.entry_count_change (scope, name, state, change)
  select 'queue', queue, state, count(*) from new_entry group by queue, state
  union all
  select 'tenant', tenant_id::text, state, count(*) from new_entry where queue <> 'cortex' group by tenant_id, state;
  return null;
end $$;
create trigger entries_came after insert on cortex.queue_entry
  referencing new table as new_entry
  for each statement execute function cortex.entries_came();

create function cortex.entries_went() returns trigger language plpgsql set jit = off as $$
begin
  insert into cortex.entry_count_change (scope, name, state, change)
  select 'queue', queue, state, -count(*) from old_entry group by queue, state
  union all
  select 'tenant', tenant_id::text, state, -count(*) from old_entry where queue <> 'cortex' group by tenant_id, state;
  return null;
end $$;
create trigger entries_went after delete on cortex.queue_entry
  referencing old table as old_entry
  for each statement execute function cortex.entries_went();

create function cortex.entries_changed() returns trigger language plpgsql set jit = off as $$
begin
  insert into cortex.entry_count_change (scope, name, state, change)
  select 'queue', queue, state, sum(change) from (
    select queue, state, 1 as change from new_entry union all select queue, state, -1 from old_entry) c
  group by queue, state having sum(change) <> 0
  union all
  select 'tenant', tenant_id::text, state, sum(change) from (
    select tenant_id, state, 1 as change from new_entry where queue <> 'cortex'
    union all
    select tenant_id, state, -1 from old_entry where queue <> 'cortex') c
  group by tenant_id, state having sum(change) <> 0;
  return null;
end $$;
create trigger entries_changed after update on cortex.queue_entry
  referencing old table as old_entry new table as new_entry
  for each statement execute function cortex.entries_changed();

-- Folds changes into the counts, one at a time; returns how many.
create function cortex.fold_entry_counts(_limit int) returns int language plpgsql set jit = off as $$
declare
  _folded int;
begin
  if not pg_try_advisory_xact_lock(1129270868, 3) then
    return 0;
  end if;
  with gone as (
    delete from cortex.entry_count_change
    where ctid = any (array(select ctid from cortex.entry_count_change limit _limit))
    returning scope, name, state, change
  ), summed as (
    select scope, name, state, sum(change) as change, count(*) as changes from gone group by scope, name, state
  ), folded as (
    insert into cortex.entry_count as c (scope, name, state, entries)
    select scope, name, state, change from summed
    on conflict (scope, name, state) do update set entries = c.entries + excluded.entries
  )
  select coalesce(sum(changes), 0) into _folded from summed;
  delete from cortex.entry_count where entries = 0;
  return _folded;
end $$;

-- Counts everything anew: for a database whose triggers were switched off for a while.
create function cortex.recount_entries() returns void language plpgsql as $$
begin
  perform pg_advisory_xact_lock(1129270868, 3);
  lock table cortex.queue_entry in share mode;
  delete from cortex.entry_count_change;
  delete from cortex.entry_count;
  insert into cortex.entry_count (scope, name, state, entries)
  select 'queue', queue, state, count(*) from cortex.queue_entry group by queue, state
  union all
  select 'tenant', tenant_id::text, state, count(*) from cortex.queue_entry where queue <> 'cortex' group by tenant_id, state
  union all
  select 'asking', j.queue, 'held', count(*) from cortex.job j
  where j.status = 'WAITING_FOR_APPROVAL'
    and j.id = any (array(select a.job_id from cortex.approval_request a where a.outcome is null))
  group by j.queue;
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
  _tagged boolean;
  _by_tenant boolean := exists (select 1 from cortex.control where scope = 'tenant' or fair_share);
begin
  if exists (
    select 1 from new_job n
    where not exists (select 1 from cortex.tenant t where t.id = n.tenant_id)
      or not exists (select 1 from cortex.agent a where a.id = n.agent_id)) then
    raise exception 'A job needs a tenant and an agent that there are.' using errcode = 'foreign_key_violation';
  end if;
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
  select bool_or(serial_key is not null), bool_or(tags <> '[]') into _keyed, _tagged
    from new_job where (select count(*) from told) >= 0;

  if _tagged then
    insert into cortex.job_tag (tag, job_id)
    select distinct t.tag, j.id from new_job j cross join jsonb_array_elements_text(j.tags) as t(tag);
  end if;
  if _keyed then
    perform cortex.settle_later(array_agg(tenant_id), array_agg(serial_key)) from new_job
      where serial_key is not null and (run_at is null or run_at <= cortex.now());  -- Others are settled when they are due.
  end if;
  return null;
end $$;
create trigger job_inserted after insert on cortex.job
  referencing new table as new_job
  for each statement execute function cortex.job_inserted();

-- A deadline that is given as a length counts from the submission. A child's is never later than that of a parent that goes on.
create function cortex.set_deadline() returns trigger language plpgsql as $$
begin
  new.deadline_at := least(
    coalesce(new.deadline_at, new.created_at + new.deadline_seconds * interval '1 second'),
    (select p.deadline_at from cortex.job p where p.id = new.parent_id and p.finished_at is null));
  return new;
end $$;
create trigger job_set_deadline before insert on cortex.job
  for each row when (new.deadline_seconds is not null or new.parent_id is not null)
  execute function cortex.set_deadline();

create function cortex.note_deadline() returns trigger language plpgsql as $$
begin
  if new.deadline_at is null then
    delete from cortex.job_deadline where job_id = new.id;
  else
    insert into cortex.job_deadline (job_id, at) values (new.id, new.deadline_at)
      on conflict (job_id) do update set at = excluded.at;
  end if;
  return null;
end $$;
create trigger job_has_deadline after insert on cortex.job
  for each row when (new.deadline_at is not null)
  execute function cortex.note_deadline();
create trigger job_deadline_moved after update of deadline_at on cortex.job
  for each row when (new.deadline_at is distinct from old.deadline_at and new.finished_at is null)
  execute function cortex.note_deadline();

-- All that follows, in one function: a lone agent waits for whatever is called when it saves a checkpoint.
-- A claim may take one run over and open others in the same statement.
-- Rows are found by arrays of ids, which only the primary keys can serve: whatever the planner believed about the size of a
-- table when it made the plan that the session keeps, it cannot have chosen to read the whole table for each batch.
-- One small statement for each consequence, run only when there is one: starting a statement costs more than a row.
-- What is joined is then small on both sides, so it is hashed, always: `finish`, inside of which this is called, forbids that.
create function cortex.job_updated() returns trigger language plpgsql
  set jit = off set enable_seqscan = off set enable_hashjoin = on set enable_nestloop = off set plan_cache_mode = force_generic_plan
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
  _limited boolean;
  _ended uuid[];
  _undone uuid[];
  _suspended uuid[];
  _parents uuid[];
  _asked boolean;
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
      bool_or(n.status = 'FAILED'),
      bool_or(n.status = 'CANCELLED' or n.cause in ('deadline_exceeded', 'cleanup_timed_out')),
      bool_or((n.status = 'COMPLETED' or n.status = 'CANCELLED') and n.queue <> 'cortex'),
      bool_or(n.serial_key is not null),
      bool_or(n.group_id is not null),
      bool_or(n.deadline_at is not null or n.cancel_requested_at is not null),
      array_agg(n.id) filter (where n.finished_at is not null),
      array_agg(n.id) filter (where n.status = 'FAILED' or n.status = 'CANCELLED'),
      array_agg(n.id) filter (where n.wait_reason = 'child'),
      array_agg(n.parent_id) filter (where n.finished_at is not null and n.parent_id is not null),
      bool_or(n.status = 'WAITING_FOR_APPROVAL' or o.status = 'WAITING_FOR_APPROVAL')
    into _waited, _ran, _started, _returned, _failed, _cancelled, _audited, _keyed, _grouped, _limited, _ended,
      _undone, _suspended, _parents, _asked
    from new_job n join old_job o using (id)
    where n.status <> o.status;
  if _keyed is null then
    return null;
  end if;

  if _limited and _ended is not null then
    delete from cortex.job_deadline where job_id = any (_ended);
  end if;
  if _grouped and _ended is not null then
    perform cortex.members_ended(_ended);
  end if;
  if _waited is not null then
    delete from cortex.queue_entry where job_id = any (_waited);
  end if;
  if _started then
    with opened as (
      insert into cortex.job_run
        (id, job_id, attempt, worker_id, tenant_id, queue, job_type, serial_key, template_id, params_snapshot,
         started_at)
      select run_id, id, attempt, worker_id, tenant_id, queue, job_type, serial_key, template_id,
        payload, updated_at
      from new_job
      where status = 'RUNNING' and (_ran is null or id <> all (_ran))
        and note ->> 'claimed_as' is null  -- One that is taken over has its run already.
      returning job_id, id, worker_id, tenant_id, queue, job_type, serial_key
    )
    insert into cortex.open_run (job_id, id, worker_id, tenant_id, queue, job_type, serial_key)
    select job_id, id, worker_id, tenant_id, queue, job_type, serial_key from opened;
  end if;
  if _ran is not null then
    delete from cortex.open_run where job_id = any (_ran);
    update cortex.job_run r
    set finished_at = c.updated_at,
      error = case when c.status = 'FAILED' or c.status = 'RETRY' then c.error ->> 'message' end,
      error_details = case when c.status = 'FAILED' or c.status = 'RETRY' then c.error end,
      closed_by = coalesce(c.actor, c.cause),
      exit_code = (c.note -> 'run' ->> 'exit_code')::int,
      log_path = c.note -> 'run' ->> 'log_path',
      artifacts = coalesce(c.note -> 'run' -> 'artifacts', r.artifacts),
      status = case
        when c.status = 'COMPLETED' then 'COMPLETED'::cortex.run_status
        when c.status = 'CANCELLED' then 'CANCELLED'
        when c.status = 'WAITING_FOR_APPROVAL' then 'WAITING'
        when c.wait_reason in ('sleep', 'child') then 'SLEEPING'
        when c.wait_reason in ('interrupted', 'handed_back', 'code_changed') then 'INTERRUPTED'
        else 'FAILED'
      end
    from new_job c
    where r.job_id = any (_ran) and r.job_id = c.id and r.finished_at is null;
  end if;
  if _returned then
    insert into cortex.queue_entry
      (id, job_id, tenant_id, queue, job_type, state, rank, position, created_at, due_at, serial_key, by_tenant)
    select coalesce(worker_job_id, nextval('cortex.queue_entry_id')), id, tenant_id, queue, job_type,
      case
        when next_retry_at > cortex.now() then 'later'::cortex.entry_state
        when serial_key is not null then 'blocked'
        else 'ready'
      end,
      -priority, position, created_at, next_retry_at, serial_key,
      cortex.has_own_lane(queue, tenant_id)
    from new_job
    where status = 'RETRY' and id = any (_ran);
    perform pg_notify('cortex', 'ready:' || queue) from new_job
      where status = 'RETRY' and id = any (_ran) and next_retry_at <= cortex.now() and serial_key is null group by queue;
  end if;
  if _cancelled then
    perform pg_notify('cortex', 'cancel:' || o.worker_id) from new_job n join old_job o using (id)
      where (n.status = 'CANCELLED' or n.cause in ('deadline_exceeded', 'cleanup_timed_out')) and o.worker_id is not null group by o.worker_id;
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

  if _asked then
    insert into cortex.entry_count_change (scope, name, state, change)
    select 'asking', queue, 'held', sum(change) from (
      select n.queue, case when n.status = 'WAITING_FOR_APPROVAL' then 1 else -1 end as change
      from new_job n join old_job o using (id)
      where n.status <> o.status and (n.status = 'WAITING_FOR_APPROVAL' or o.status = 'WAITING_FOR_APPROVAL')) asking
    group by queue having sum(change) <> 0;
  end if;
  if _audited then
    insert into cortex.audit_log (at, tenant_id, actor, action, object_type, object_id, reason)
    select n.updated_at, n.tenant_id, n.actor, case when n.status = 'COMPLETED' then 'JOB_COMPLETED' else 'JOB_CANCELLED' end,
      'job', n.id::text, n.note ->> 'reason'
    from new_job n join old_job o using (id)
    where n.status <> o.status and (n.status = 'COMPLETED' or n.status = 'CANCELLED') and n.queue <> 'cortex';
  end if;

  if _failed then
    perform cortex.record_failures(array_agg(n.id)) from new_job n join old_job o using (id)
      where n.status = 'FAILED' and o.status <> 'FAILED' and n.note ->> 'retry_as' is null
      having count(*) > 0;
    perform cortex.chain(array_agg(n.id)) from new_job n join old_job o using (id)
      where n.status = 'FAILED' and o.status <> 'FAILED' and n.note ? 'retry_as';
    perform cortex.keep_failed_deliveries(array_agg(n.id)) from new_job n join old_job o using (id)
      where n.status = 'FAILED' and o.status <> 'FAILED' and n.job_type in ('cortex.notify', 'cortex.webhook') and n.queue = 'cortex'
      having count(*) > 0;
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

create function cortex.record_failures(_jobs uuid[]) returns void language sql as $$
  insert into cortex.audit_log (tenant_id, actor, action, object_type, object_id, details)
  select tenant_id, actor, case when note ->> 'exhausted' = 'true' then 'JOB_EXHAUSTED_RETRIES' else 'JOB_FAILED' end, 'job', id::text,
    jsonb_build_object('job_type', job_type, 'retry_count', retry_count, 'cause', cause, 'error', error ->> 'type',
      'error_message', error_message)
  from cortex.job
  where id = any (_jobs)
  order by id;
$$;

create function cortex.job_deleted() returns trigger language plpgsql
  set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
declare
  _jobs uuid[] := array(select id from old_job);
begin
  delete from cortex.job_history where job_id = any (_jobs);
  delete from cortex.job_run where job_id = any (_jobs);
  delete from cortex.open_run where job_id = any (_jobs);
  insert into cortex.entry_count_change (scope, name, state, change)
  select 'asking', queue, 'held', -count(*) from old_job where status = 'WAITING_FOR_APPROVAL' group by queue;
  delete from cortex.queue_entry where job_id = any (_jobs);
  delete from cortex.job_tag g using (
    select distinct t.tag, j.id from old_job j cross join jsonb_array_elements_text(j.tags) as t(tag)) gone
  where g.tag = gone.tag and g.job_id = gone.id;
  delete from cortex.failed_delivery where job_id = any (_jobs);
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
  set lock_timeout = '250ms' set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
begin
  return query
    update cortex.job j
    set status = c.status,
      output = c.output,
      output_blob = c.output_blob,
      error = c.error,
      error_message = c.error_message,
      wait_reason = c.wait_reason,
      next_retry_at = case when c.status = 'RETRY' then cortex.now() + c.delay_seconds * interval '1 second' end,
      worker_job_id = case when c.status = 'RETRY' then nextval('cortex.queue_entry_id') end,
      retry_count = c.retry_count,
      crash_count = c.crash_count,
      failed_runs = j.failed_runs + case when c.wait_reason = 'retry' or c.wait_reason = 'worker_lost' then 1 else 0 end,
      cost_cents = j.cost_cents + coalesce(c.cost_cents, 0),
      run_id = null,
      worker_id = null,
      updated_at = greatest(cortex.now(), j.updated_at),
      finished_at = case when c.status <> 'RETRY' then greatest(cortex.now(), j.updated_at) end,
      revision = j.revision + 1,
      cause = c.cause,
      actor = _actor,
      note = c.note,
      checkpoint = coalesce(c.checkpoint::json, j.checkpoint),
      checkpoint_id = coalesce(c.checkpoint_id, j.checkpoint_id)
    from jsonb_to_recordset(_batch) as c(
      job_id uuid, run_id uuid, status cortex.job_status, output jsonb, output_blob text, error jsonb, error_message text,
      wait_reason text,
      delay_seconds double precision, retry_count int, crash_count int, cost_cents bigint, cause text, note jsonb,
      checkpoint text, checkpoint_id uuid)
    where j.id = c.job_id and j.run_id = c.run_id
    returning j.id;
end $$;

-- A claim under way holds the advisory lock of its worker, shared, so that no row is locked that the heartbeat needs. Whoever ends a
-- worker takes that lock alone and then reads: no claim can add a run to a worker that has ended.
create function cortex.no_claim_under_way(_worker uuid) returns boolean language sql volatile
as $$ select pg_try_advisory_xact_lock(1129270869, hashtext(_worker::text)) $$;

-- A worker leaves in order. False: it is not LIVE any more, or has an open run, which somebody must rescue.
create function cortex.leave(_worker uuid) returns boolean language plpgsql set jit = off set enable_seqscan = off as $$
begin
  if not cortex.no_claim_under_way(_worker) then
    return false;
  end if;
  update cortex.worker set status = 'STOPPED', ended_at = cortex.now()
  where id = (select w.id from cortex.worker w where w.id = _worker and w.status = 'LIVE' for no key update skip locked)
    and not exists (select 1 from cortex.open_run r where r.worker_id = _worker);
  return found;
end $$;

-- Ends the rescue of lost workers that have no open run left.
create function cortex.close_lost() returns void language plpgsql set jit = off set enable_seqscan = off as $$
declare
  _worker uuid;
begin
  for _worker in select id from cortex.worker where status = 'LOST' and ended_at is null loop
    continue when not cortex.no_claim_under_way(_worker);
    update cortex.worker set ended_at = cortex.now()
    where id = (select w.id from cortex.worker w where w.id = _worker for update skip locked)
      and status = 'LOST' and ended_at is null
      and not exists (select 1 from cortex.open_run r where r.worker_id = _worker);
    delete from cortex.worker_beat where worker_id = _worker;
  end loop;
end $$;

-- Makes ready what has fallen due, in small batches; returns how many.
create function cortex.promote_due(_limit int) returns int language plpgsql set lock_timeout = '1s' set jit = off set enable_seqscan = off as $$
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

-- Ends jobs whose deadline has passed, in small batches; returns how many. One that never ran is CANCELLED, any other FAILED.
-- The entry is locked before the job, as a claim does; what somebody else holds is left for the next time.
create function cortex.end_overdue(_limit int) returns int language plpgsql
  set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  _due uuid[];
  _entries uuid[];
  _ended int;
begin
  _due := array(select job_id from cortex.job_deadline where at <= cortex.now() order by at limit _limit);
  if cardinality(_due) = 0 then
    return 0;
  end if;
  _entries := array(
    select job_id from cortex.queue_entry where job_id = any (_due) order by job_id for update skip locked);
  with live as materialized (
    select id from cortex.job j
    where id = any (_due)
      and finished_at is null
      and (id = any (_entries) or not exists (select 1 from cortex.queue_entry e where e.job_id = j.id))
    order by id
    for update skip locked
  )
  update cortex.job j
  set status = case when cortex.ends_cancelled(j) then 'CANCELLED'::cortex.job_status else 'FAILED' end,
    error = case when cortex.ends_cancelled(j) then j.error else
      jsonb_build_object('type', 'DeadlineExceeded', 'message', 'The job did not end before its deadline, ' || cortex.iso(j.deadline_at) || '.') end,
    error_message = case when not cortex.ends_cancelled(j) then
      'The job did not end before its deadline, ' || cortex.iso(j.deadline_at) || '.' end,
    run_id = null,
    worker_id = null,
    next_retry_at = null,
    wait_reason = null,
    approval_token = null,
    approval_expires_at = null,
    worker_job_id = null,
    cause = case when j.cancel_requested_at is null then 'deadline_exceeded' else 'cleanup_timed_out' end,
    revision = j.revision + 1,
    updated_at = greatest(cortex.now(), j.updated_at),
    finished_at = greatest(cortex.now(), j.updated_at),
    actor = null,
    note = case
      when j.cancel_requested_at is null then jsonb_build_object('reason', 'its deadline was ' || cortex.iso(j.deadline_at))
      else j.cancel_request::jsonb
    end
  from live l
  where j.id = l.id and (j.cleanup_seconds is null or j.cancel_requested_at is not null or j.status = 'PENDING');
  get diagnostics _ended = row_count;
  delete from cortex.job_deadline d
    where d.job_id = any (_due)
      and not exists (select 1 from cortex.job j where j.id = d.job_id and j.finished_at is null);
  return _ended;
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
  key_mode text default 'replace',
  deadline timestamptz default null
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
  if jsonb_path_exists(add_job.payload,
      '$.** ? (@.type() == "number" && (@ > 18446744073709551615 || @ < -9223372036854775808))') then
    raise exception 'payload holds a number beyond 64 bits (-2^63 to 2^64 - 1), which readers of JSON round: %.',
      left(jsonb_path_query_first(add_job.payload,
        '$.** ? (@.type() == "number" && (@ > 18446744073709551615 || @ < -9223372036854775808))') #>> '{}', 80)
      using errcode = 'invalid_parameter_value', hint = 'Store it as text.';
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
    deadline_at, deadline_seconds, job_key, created_by, cause, actor)
  values (_id, _tenant, _agent.id, add_job.job_type,
    coalesce(add_job.queue, _agent.skill_config ->> 'queue', 'default'), add_job.payload, add_job.priority, _run_at,
    add_job.serial_key, add_job.tags,
    coalesce(add_job.max_retries, (_agent.skill_config -> 'retry' ->> 'max_retries')::int, 3),
    add_job.deadline, case when add_job.deadline is null then (_agent.skill_config ->> 'deadline_seconds')::double precision end,
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
comment on column cortex.worker.has_room is 'It has a free slot and finds nothing to claim, so that no other worker should claim ahead.';
comment on column cortex.worker.process is 'Host, boot, pid namespace, pid and start time of its process, by which a neighbour knows that it is gone.';

comment on table cortex.worker_beat is 'Heartbeats of workers whose row another transaction has locked.';
comment on column cortex.worker_beat.worker_id is 'Whose.';
comment on column cortex.worker_beat.lease_until is 'Until then it counts as alive.';

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
comment on column cortex.job.output is 'What the handler returned; null if that is large.';
comment on column cortex.job.output_blob is 'Where what the handler returned is, if that is large: a digest in job_blob.';
comment on column cortex.job.error is 'Type, message and traceback of the last failure.';
comment on column cortex.job.error_message is 'Why it FAILED; set exactly then.';
comment on column cortex.job.checkpoint is 'The snapshot of its progress; older entries of a long one are in sealed segments, see the view job_checkpoint.';
comment on column cortex.job.retry_count is 'Retries spent so far.';
comment on column cortex.job.max_retries is 'Retries allowed, 0 to 100.';
comment on column cortex.job.retry_policy is 'A policy for this job alone; null means the agent''s.';
comment on column cortex.job.attempt is 'Number of the latest run.';
comment on column cortex.job.crash_count is 'How often in a row its process died with no new checkpoint in between.';
comment on column cortex.job.failed_runs is 'How many of its runs failed or were lost with their worker, and were followed by another.';
comment on column cortex.job.next_retry_at is 'When it is due again; set exactly in RETRY.';
comment on column cortex.job.run_at is 'Not before this time.';
comment on column cortex.job.timeout_seconds is 'How long one run of it may take; null means as the agent says.';
comment on column cortex.job.deadline_at is 'When it must have ended, its waits included; then it is CANCELLED if it never ran, else FAILED.';
comment on column cortex.job.deadline_seconds is 'That as a length from its submission, if so given; a retry counts anew.';
comment on column cortex.job.wait_reason is 'Why it is in RETRY: retry, worker_lost, interrupted, handed_back, sleep, child, code_changed.';
comment on column cortex.job.run_id is 'The open run, the fence of every write; set exactly in RUNNING.';
comment on column cortex.job.worker_id is 'The worker that owns the open run; null while none does.';
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
comment on column cortex.job.submitters is 'Who else stands behind it, signed as created_by is: whoever stands behind its parent, edited or triggered its schedule, or had it run again.';
comment on column cortex.job.retry_of is 'The job that this one retries; unique.';
comment on column cortex.job.effect_root is
  'The ids of tool calls follow from it: the first job of those that repeat the same effects, or the call that a child is. Null: this job. It never changes.';
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

comment on table cortex.job_tag is 'Jobs by their tags. Written by the triggers of job.';
comment on column cortex.job_tag.tag is 'One of job.tags.';
comment on column cortex.job_tag.job_id is 'Its job.';

comment on table cortex.job_deadline is 'Jobs that have a deadline and have not ended. Written by the triggers of job.';
comment on column cortex.job_deadline.job_id is 'Its job.';
comment on column cortex.job_deadline.at is 'Copy of job.deadline_at.';

comment on table cortex.job_run is 'Runs: one execution of a job by one worker. Written by the triggers of job; closed for good.';
comment on column cortex.job_run.id is 'The run id, the fence.';
comment on column cortex.job_run.job_id is 'Its job.';
comment on column cortex.job_run.attempt is 'Its number among the runs of the job.';
comment on column cortex.job_run.worker_id is 'The worker that owns it; null while none does.';
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
comment on column cortex.job_run.error_details is 'Type, message, step and traceback of that error.';
comment on column cortex.job_run.artifacts is 'Files that it produced.';
comment on column cortex.job_run.log_path is 'Where its output is.';
comment on column cortex.job_run.closed_by is 'Who closed it.';

comment on table cortex.open_run is 'Runs that are open: what job_run says of them, to be found by worker and by serial key. Written by the triggers of job.';
comment on column cortex.open_run.job_id is 'Its job.';
comment on column cortex.open_run.id is 'The run id.';
comment on column cortex.open_run.worker_id is 'The worker that owns it; null while none does.';
comment on column cortex.open_run.tenant_id is 'Tenant of the job.';
comment on column cortex.open_run.queue is 'Queue of the job.';
comment on column cortex.open_run.job_type is 'Agent of the job.';
comment on column cortex.open_run.serial_key is 'Serial key of the job.';

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
comment on column cortex.queue_entry.by_tenant is 'It waits among those of its tenant alone.';

comment on table cortex.entry_count is 'How many entries each queue and each tenant has, without the latest changes.';
comment on column cortex.entry_count.scope is 'queue or tenant; asking for jobs of a queue that wait for an approval.';
comment on column cortex.entry_count.name is 'The name of the queue, or the id of the tenant.';
comment on column cortex.entry_count.state is 'The state of the entries; held for jobs that wait for an approval.';
comment on column cortex.entry_count.entries is 'How many. The plane''s own are not counted for tenants.';

comment on table cortex.entry_count_change is 'Changes that are not in entry_count yet. Written by the triggers of queue_entry.';
comment on column cortex.entry_count_change.scope is 'queue or tenant; asking for jobs of a queue that wait for an approval.';
comment on column cortex.entry_count_change.name is 'The name of the queue, or the id of the tenant.';
comment on column cortex.entry_count_change.state is 'The state of the entries; held for jobs that wait for an approval.';
comment on column cortex.entry_count_change.change is 'How many more, or fewer.';

comment on table cortex.job_reconciler is 'One row: how far the jobs have been looked through for such as need mending.';
comment on column cortex.job_reconciler.id is 'Always 1.';
comment on column cortex.job_reconciler.reconciled_at is 'When somebody last looked.';
comment on column cortex.job_reconciler.after is 'The last job of the page that was looked at.';

comment on table cortex.key_to_settle is 'Serial keys of which the next claim makes the first waiting job ready.';
comment on column cortex.key_to_settle.id is 'In the order in which they were left.';
comment on column cortex.key_to_settle.tenant_id is 'Whose key.';
comment on column cortex.key_to_settle.serial_key is 'The key.';

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
comment on column cortex.audit_log.salt is 'Goes into the digests of actor, reason, source and details, until some of them are erased.';
comment on column cortex.audit_log.kept is 'Once something was erased: its digest, and the salts of what was not.';

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
comment on column cortex.control.held_until is 'Until then nothing of it is claimed: a job of it was told to come back later.';
comment on column cortex.control.hold_reason is 'Why, and which job was told so.';
comment on column cortex.control.updated_by is 'Who changed it last; code for what an agent declares.';
comment on column cortex.control.updated_at is 'When.';
