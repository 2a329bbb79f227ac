-- The ground: jobs, their runs, their history, and the queue.
--
--   who writes what
--     job            everybody, within the thirteen transitions; the one source of truth
--     job_run        the triggers of job: a run opens and closes with its job's state
--     job_history    the triggers of job: one row for each transition, never changed
--     queue_entry    the triggers of job: one row for each job that waits to be claimed
--
-- Ids are canonical UUID text, instants are microseconds since 1970 in UTC, JSON is text.
-- Nothing here needs more than SQLite 3.38, so that other clients can open the file.

create table migration (
  version integer primary key,
  name text not null,
  checksum text not null,
  applied_at integer not null
) strict;

create table tenant (
  id text primary key,
  name text not null unique check (name <> ''),
  created_at integer not null
) strict;
insert into tenant (id, name, created_at) values ('00000000-0000-7000-8000-000000000000', 'default', 0);

create table agent (
  id text primary key,
  job_type text not null unique check (job_type <> ''),
  skill_config text not null default '{}' check (json_valid(skill_config)),
  created_at integer not null,
  updated_at integer not null
) strict;

create table worker (
  id text primary key,
  name text not null,
  status text not null default 'LIVE' check (status in ('LIVE', 'LOST', 'STOPPED')),
  queues text not null default '[]',
  job_types text not null default '[]',
  concurrency integer not null check (concurrency > 0),
  lease_seconds real not null check (lease_seconds > 0),
  started_at integer not null,
  heartbeat_at integer not null,
  lease_until integer not null,
  ended_at integer,
  process text,
  has_room integer not null default 0 check (has_room in (0, 1))
) strict;
create index worker_live on worker (lease_until) where status = 'LIVE';
create index worker_lost on worker (id) where status = 'LOST' and ended_at is null;

-- What sequences are elsewhere: the last position and the last queue entry.
create table counter (
  name text primary key,
  value integer not null
) strict, without rowid;
insert into counter (name, value) values ('position', 0), ('queue_entry', 0);

create table job (
  id text primary key,
  tenant_id text not null default '00000000-0000-7000-8000-000000000000' references tenant (id),
  agent_id text not null references agent (id),
  job_type text not null,
  queue text not null default 'default' check (queue <> ''),
  status text not null default 'PENDING' check (
    status in ('PENDING', 'RUNNING', 'COMPLETED', 'FAILED', 'WAITING_FOR_APPROVAL', 'RETRY', 'CANCELLED')),
  priority integer not null default 0 check (priority between -1000000 and 1000000),
  position integer not null,
  payload text not null default '{}' check (json_valid(payload)),
  output text check (output is null or json_valid(output)),
  output_blob text,
  error text check (error is null or json_valid(error)),
  error_message text,
  checkpoint text check (checkpoint is null or json_valid(checkpoint)),
  retry_count integer not null default 0,
  max_retries integer not null default 3 check (max_retries between 0 and 100),
  retry_policy text check (retry_policy is null or json_valid(retry_policy)),
  attempt integer not null default 0 check (attempt >= 0),
  crash_count integer not null default 0 check (crash_count >= 0),
  failed_runs integer not null default 0 check (failed_runs >= 0),
  next_retry_at integer,
  run_at integer,
  timeout_seconds real check (timeout_seconds > 0),
  deadline_at integer,
  deadline_seconds real check (deadline_seconds > 0),
  wait_reason text,
  run_id text,
  worker_id text,
  approval_token text,
  approval_expires_at integer,
  worker_job_id integer,
  job_key text,
  serial_key text,
  group_id text,
  template_id text,
  schedule_id text,
  parent_id text,
  session_id text,
  created_by text,
  submitters text check (submitters is null or json_type(submitters) = 'array'),
  retry_of text,
  effect_root text,
  cost_cents integer not null default 0 check (cost_cents >= 0),
  tags text not null default '[]' check (json_type(tags) = 'array'),
  revision integer not null default 1,
  cause text not null default 'sql',
  actor text,
  note text check (note is null or json_valid(note)),
  created_at integer not null,
  queued_at integer not null,
  started_at integer,
  updated_at integer not null,
  finished_at integer,

  constraint retry_count_within_max check (retry_count between 0 and max_retries),
  constraint run_id_exactly_when_running check ((status = 'RUNNING') = (run_id is not null)),
  constraint worker_only_when_running check (worker_id is null or status = 'RUNNING'),
  constraint next_retry_at_exactly_in_retry check ((status = 'RETRY') = (next_retry_at is not null)),
  constraint wait_reason_exactly_in_retry check ((status = 'RETRY') = (wait_reason is not null)),
  constraint approval_token_exactly_when_waiting
    check ((status = 'WAITING_FOR_APPROVAL') = (approval_token is not null)),
  constraint approval_expiry_exactly_when_waiting
    check ((status = 'WAITING_FOR_APPROVAL') = (approval_expires_at is not null)),
  constraint error_message_exactly_when_failed check ((status = 'FAILED') = (error_message is not null)),
  constraint finished_at_exactly_when_terminal
    check ((status in ('COMPLETED', 'FAILED', 'CANCELLED')) = (finished_at is not null))
) strict;

-- Columns that every successor of a job has as the job has them; see the file of successors.
-- fragment: carried
-- tenant_id, agent_id, job_type, queue, priority, payload, max_retries, retry_policy, timeout_seconds, deadline_seconds,
-- serial_key, template_id, session_id, tags
-- end
create index job_of_agent on job (agent_id, id desc);
create index job_of_queue on job (queue, id desc);
create index job_of_tenant on job (tenant_id, id desc);
create unique index job_retry_of on job (retry_of) where retry_of is not null;

-- Jobs by their tags. A table of its own: most jobs have none, and an index of lists cannot be read newest first.
-- No foreign key: a job that is deleted names its tags, and nothing else is searched.
create table job_tag (
  tag text not null,
  job_id text not null,
  primary key (tag, job_id)
) strict, without rowid;

-- Jobs that have a deadline and have not ended. A table of its own: an index on job would hold those that have ended too.
create table job_deadline (
  job_id text primary key references job (id) on delete cascade,
  at integer not null
) strict, without rowid;
create index job_deadline_next on job_deadline (at);

create table job_run (
  id text not null,
  job_id text not null references job (id) on delete cascade,
  attempt integer not null,
  worker_id text,
  tenant_id text not null,
  queue text not null,
  job_type text not null,
  serial_key text,
  template_id text,
  params_snapshot text not null,
  status text not null default 'RUNNING' check (
    status in ('RUNNING', 'COMPLETED', 'FAILED', 'SKIPPED', 'CANCELLED', 'WAITING', 'SLEEPING', 'INTERRUPTED')),
  started_at integer not null,
  finished_at integer,
  exit_code integer,
  error text,
  error_details text check (error_details is null or json_valid(error_details)),
  artifacts text not null default '[]',
  log_path text,
  closed_by text,
  primary key (job_id, id),
  constraint finished_at_exactly_when_closed check ((status = 'RUNNING') = (finished_at is null))
) strict, without rowid;
create index job_run_open on job_run (worker_id) where status = 'RUNNING';
-- The promise of serial_key, kept by the database: one owned open run for each key.
create unique index job_run_one_for_each_serial_key on job_run (tenant_id, serial_key)
  where status = 'RUNNING' and worker_id is not null and serial_key is not null;

-- Runs that are open. Here an index of them costs the end of a run nothing; PostgreSQL has a table.
create view open_run as
select job_id, id, worker_id, tenant_id, queue, job_type, serial_key from job_run where status = 'RUNNING';

-- The id is derived, and costs nothing: the job's own id with the revision in its last digits.
create table job_history (
  id text generated always as (substr(job_id, 1, 32) || printf('%04x', revision)) virtual,
  job_id text not null references job (id) on delete cascade,
  revision integer not null,
  previous_status text,
  new_status text not null,
  cause text not null,
  actor text,
  run_id text,
  metadata text,
  created_at integer not null,
  primary key (job_id, revision)
) strict, without rowid;
create index job_history_ended on job_history (job_id) where new_status in ('FAILED', 'CANCELLED');

create table queue_entry (
  id integer not null,
  job_id text primary key references job (id) on delete cascade,
  tenant_id text not null,
  queue text not null,
  job_type text not null,
  state text not null check (state in ('ready', 'later', 'blocked', 'held')),
  rank integer not null,
  position integer not null,
  created_at integer not null,
  due_at integer not null,
  serial_key text,
  by_tenant integer not null default 0
) strict, without rowid;
create index queue_entry_ready on queue_entry (queue, job_type, rank, position, created_at, job_id)
  where state = 'ready' and by_tenant = 0;
-- The order over all queues: a worker that reads most of what waits takes the first entries, however many queues and agents there are.
create index queue_entry_ready_in_order on queue_entry (rank, position, created_at, job_id)
  where state = 'ready' and by_tenant = 0;
-- Only tenants that are steered one by one, and queues that share fairly, have lanes of their own.
create index queue_entry_ready_by_tenant on queue_entry (queue, job_type, tenant_id, rank, position, created_at, job_id)
  where state = 'ready' and by_tenant = 1;
-- The order of each queue, state by state: what moves, pages and `why` read.
create index queue_entry_in_order on queue_entry (queue, state, rank, position, created_at, job_id);
create index queue_entry_ready_of_tenant on queue_entry (queue, tenant_id, rank, position, created_at, job_id, job_type)
  where state = 'ready' and by_tenant = 1;
create index queue_entry_later on queue_entry (due_at) where state = 'later';
create index queue_entry_of_key on queue_entry (tenant_id, serial_key, rank, position, created_at, job_id)
  where serial_key is not null and state in ('ready', 'blocked');
create unique index queue_entry_one_ready_for_each_key on queue_entry (tenant_id, serial_key)
  where serial_key is not null and state = 'ready';

-- How many entries each queue and each tenant has, by state, and how many jobs of each queue ask for approval.
create table entry_count (
  scope text not null check (scope in ('queue', 'tenant', 'asking')),
  name text not null,
  state text not null,
  entries integer not null,
  primary key (scope, name, state)
) strict, without rowid;

-- What operators have set for the gate, a queue, an agent or a tenant. No row: nothing is set.
create table control (
  scope text not null check (scope in ('gate', 'queue', 'agent', 'tenant')),
  name text not null,
  paused integer not null default 0 check (paused in (0, 1)),
  paused_by text,
  paused_at integer,
  pause_reason text,
  max_running integer check (max_running > 0),
  fair_share integer not null default 0 check (fair_share in (0, 1)),
  budget_cents integer check (budget_cents >= 0),
  on_exhausted text check (on_exhausted in ('refuse', 'pause')),
  held_until integer,
  hold_reason text,
  updated_by text,
  updated_at integer not null,
  primary key (scope, name),
  constraint paused_at_exactly_when_paused check (paused = (paused_at is not null)),
  constraint only_queues_share check (not fair_share or scope = 'queue'),
  constraint only_agents_and_tenants_have_budgets check (budget_cents is null or scope in ('agent', 'tenant')),
  constraint a_budget_says_what_happens check ((budget_cents is null) = (on_exhausted is null))
) strict, without rowid;

-- How far the jobs have been looked through for such as need mending, and when that was. One row.
create table job_reconciler (
  id integer primary key check (id = 1),
  reconciled_at integer not null,
  after text not null
) strict;
insert into job_reconciler (id, reconciled_at, after) values (1, 0, '00000000-0000-0000-0000-000000000000');

create table audit_log (
  seq integer primary key,
  at integer not null,
  tenant_id text,
  actor text,
  action text not null,
  object_type text not null,
  object_id text not null,
  reason text,
  source text,
  details text,
  salt text default (lower(hex(randomblob(16)))),
  kept text
) strict;
create index audit_log_of_object on audit_log (object_id);

-- ---------------------------------------------------------------------------
-- What the database refuses
-- ---------------------------------------------------------------------------

create trigger job_birth before insert on job
when new.status <> 'PENDING'
begin
  select case new.status
    when 'RUNNING' then raise(abort, 'A job is born PENDING; inserting one as RUNNING is refused.')
    when 'COMPLETED' then raise(abort, 'A job is born PENDING; inserting one as COMPLETED is refused.')
    when 'FAILED' then raise(abort, 'A job is born PENDING; inserting one as FAILED is refused.')
    when 'WAITING_FOR_APPROVAL' then raise(abort, 'A job is born PENDING; inserting one as WAITING_FOR_APPROVAL is refused.')
    when 'RETRY' then raise(abort, 'A job is born PENDING; inserting one as RETRY is refused.')
    when 'CANCELLED' then raise(abort, 'A job is born PENDING; inserting one as CANCELLED is refused.')
    else raise(abort, 'A job is born PENDING.')
  end;
end;

-- raise() takes no expressions before SQLite 3.47, so each refused pair of states has its own text.
-- `replace` deletes a row without asking the delete triggers; nothing permanent may be replaced.
create trigger job_no_replace before insert on job
when exists (select 1 from job where id = new.id or retry_of = new.retry_of)
begin
  select raise(abort, 'There is such a job already; a job is never replaced.');
end;
create trigger run_no_replace before insert on job_run
when exists (select 1 from job_run where job_id = new.job_id and id = new.id)
begin
  select raise(abort, 'There is such a run already; a run is never replaced.');
end;
create trigger history_no_replace before insert on job_history
when exists (select 1 from job_history where job_id = new.job_id and revision = new.revision)
begin
  select raise(abort, 'Rows of job_history are never changed or deleted.');
end;
create trigger audit_no_replace before insert on audit_log
when exists (select 1 from audit_log where seq = new.seq)
begin
  select raise(abort, 'Rows of audit_log are never changed or deleted.');
end;

create trigger job_transition before update of status on job
when new.status <> old.status and not (
    (old.status = 'PENDING' and (new.status = 'RUNNING' or new.status = 'CANCELLED')) or
    (old.status = 'RUNNING' and (new.status = 'COMPLETED' or new.status = 'FAILED' or new.status = 'WAITING_FOR_APPROVAL' or new.status = 'RETRY' or new.status = 'CANCELLED')) or
    (old.status = 'RETRY' and (new.status = 'RUNNING' or new.status = 'CANCELLED' or new.status = 'FAILED')) or
    (old.status = 'WAITING_FOR_APPROVAL' and (new.status = 'RUNNING' or new.status = 'FAILED' or new.status = 'CANCELLED')))
begin
  select case
    when old.status = 'PENDING' and new.status = 'COMPLETED' then raise(abort, 'A job cannot go from PENDING to COMPLETED.')
    when old.status = 'PENDING' and new.status = 'FAILED' then raise(abort, 'A job cannot go from PENDING to FAILED.')
    when old.status = 'PENDING' and new.status = 'WAITING_FOR_APPROVAL' then raise(abort, 'A job cannot go from PENDING to WAITING_FOR_APPROVAL.')
    when old.status = 'PENDING' and new.status = 'RETRY' then raise(abort, 'A job cannot go from PENDING to RETRY.')
    when old.status = 'RUNNING' and new.status = 'PENDING' then raise(abort, 'A job cannot go from RUNNING to PENDING.')
    when old.status = 'COMPLETED' and new.status = 'PENDING' then raise(abort, 'A job cannot go from COMPLETED to PENDING.')
    when old.status = 'COMPLETED' and new.status = 'RUNNING' then raise(abort, 'A job cannot go from COMPLETED to RUNNING.')
    when old.status = 'COMPLETED' and new.status = 'FAILED' then raise(abort, 'A job cannot go from COMPLETED to FAILED.')
    when old.status = 'COMPLETED' and new.status = 'WAITING_FOR_APPROVAL' then raise(abort, 'A job cannot go from COMPLETED to WAITING_FOR_APPROVAL.')
    when old.status = 'COMPLETED' and new.status = 'RETRY' then raise(abort, 'A job cannot go from COMPLETED to RETRY.')
    when old.status = 'COMPLETED' and new.status = 'CANCELLED' then raise(abort, 'A job cannot go from COMPLETED to CANCELLED.')
    when old.status = 'FAILED' and new.status = 'PENDING' then raise(abort, 'A job cannot go from FAILED to PENDING.')
    when old.status = 'FAILED' and new.status = 'RUNNING' then raise(abort, 'A job cannot go from FAILED to RUNNING.')
    when old.status = 'FAILED' and new.status = 'COMPLETED' then raise(abort, 'A job cannot go from FAILED to COMPLETED.')
    when old.status = 'FAILED' and new.status = 'WAITING_FOR_APPROVAL' then raise(abort, 'A job cannot go from FAILED to WAITING_FOR_APPROVAL.')
    when old.status = 'FAILED' and new.status = 'RETRY' then raise(abort, 'A job cannot go from FAILED to RETRY.')
    when old.status = 'FAILED' and new.status = 'CANCELLED' then raise(abort, 'A job cannot go from FAILED to CANCELLED.')
    when old.status = 'WAITING_FOR_APPROVAL' and new.status = 'PENDING' then raise(abort, 'A job cannot go from WAITING_FOR_APPROVAL to PENDING.')
    when old.status = 'WAITING_FOR_APPROVAL' and new.status = 'COMPLETED' then raise(abort, 'A job cannot go from WAITING_FOR_APPROVAL to COMPLETED.')
    when old.status = 'WAITING_FOR_APPROVAL' and new.status = 'RETRY' then raise(abort, 'A job cannot go from WAITING_FOR_APPROVAL to RETRY.')
    when old.status = 'RETRY' and new.status = 'PENDING' then raise(abort, 'A job cannot go from RETRY to PENDING.')
    when old.status = 'RETRY' and new.status = 'COMPLETED' then raise(abort, 'A job cannot go from RETRY to COMPLETED.')
    when old.status = 'RETRY' and new.status = 'WAITING_FOR_APPROVAL' then raise(abort, 'A job cannot go from RETRY to WAITING_FOR_APPROVAL.')
    when old.status = 'CANCELLED' and new.status = 'PENDING' then raise(abort, 'A job cannot go from CANCELLED to PENDING.')
    when old.status = 'CANCELLED' and new.status = 'RUNNING' then raise(abort, 'A job cannot go from CANCELLED to RUNNING.')
    when old.status = 'CANCELLED' and new.status = 'COMPLETED' then raise(abort, 'A job cannot go from CANCELLED to COMPLETED.')
    when old.status = 'CANCELLED' and new.status = 'FAILED' then raise(abort, 'A job cannot go from CANCELLED to FAILED.')
    when old.status = 'CANCELLED' and new.status = 'WAITING_FOR_APPROVAL' then raise(abort, 'A job cannot go from CANCELLED to WAITING_FOR_APPROVAL.')
    when old.status = 'CANCELLED' and new.status = 'RETRY' then raise(abort, 'A job cannot go from CANCELLED to RETRY.')
    else raise(abort, 'There is no such job status.')
  end;
end;

create trigger job_payload before update of payload on job
when new.payload is not old.payload
begin
  select raise(abort, 'The payload of a job never changes. Submit a new job instead.');
end;

create trigger job_effect_root before update of effect_root on job
when new.effect_root is not old.effect_root
begin
  select raise(abort, 'The effect_root of a job never changes: the ids of its tool calls follow from it.');
end;

create trigger job_other_run before update of run_id on job
when new.status = 'RUNNING' and old.status = 'RUNNING' and new.run_id is not old.run_id
begin
  select raise(abort, 'A job that is RUNNING has an open run, which cannot be replaced.');
end;

-- A statement of ours always counts the revision up; one that does not is raw SQL.
create trigger job_raw_update before update of status on job
when new.status <> old.status and new.revision = old.revision and new.updated_at = old.updated_at
begin
  select raise(abort, 'Set updated_at too (microseconds since 1970, UTC), and finished_at when the job ends.');
end;

-- But for erasing: a person becomes a pseudonym, and words go.
create trigger history_no_update before update on job_history
when new.job_id <> old.job_id or new.revision <> old.revision or new.previous_status is not old.previous_status
  or new.new_status <> old.new_status or new.cause <> old.cause or new.run_id is not old.run_id
  or new.created_at <> old.created_at or coalesce(new.actor, '') not like 'user:erased-%'
  or (new.metadata is not old.metadata and new.metadata is not null)
begin
  select raise(abort, 'Rows of job_history are never changed or deleted.');
end;
create trigger history_no_delete before delete on job_history
when exists (select 1 from job where id = old.job_id)
begin
  select raise(abort, 'Rows of job_history go only with their whole job.');
end;
-- But for erasing: words may go, the actor may become a pseudonym, and the digests of what went stay (docs/decisions/0040).
create trigger audit_no_update before update on audit_log
when new.salt is not null or new.kept is null
  or new.seq <> old.seq or new.at <> old.at or new.tenant_id is not old.tenant_id or new.action <> old.action
  or new.object_type <> old.object_type or new.object_id <> old.object_id
  or (new.actor is not old.actor and coalesce(new.actor, '') not like 'user:erased-%')
  or (new.reason is not null and new.reason is not old.reason)
  or (new.source is not null and new.source is not old.source)
  or (new.details is not null and new.details is not old.details)
begin
  select raise(abort, 'Rows of audit_log are never changed or deleted.');
end;
-- What a job was born with, and how it ended, cannot be rewritten.
create trigger job_born_so before update of id, tenant_id, agent_id, job_type, template_id, group_id, retry_of, created_at on job
when new.id is not old.id
  or new.tenant_id is not old.tenant_id
  or new.agent_id is not old.agent_id
  or new.job_type is not old.job_type
  or new.template_id is not old.template_id
  or new.group_id is not old.group_id
  or new.retry_of is not old.retry_of
  or new.created_at is not old.created_at
begin
  select raise(abort, 'What a job was born with, and how it ended, never changes.');
end;
create trigger job_ended_so after update of output, output_blob, error, error_message, started_at, finished_at, queued_at on job
when (old.status = 'COMPLETED' or old.status = 'FAILED' or old.status = 'CANCELLED')
  and (new.output is not old.output
  or new.output_blob is not old.output_blob
  or new.error is not old.error
  or new.error_message is not old.error_message
  or new.started_at is not old.started_at
  or new.finished_at is not old.finished_at
  or new.queued_at is not old.queued_at)
begin
  select raise(abort, 'What a job was born with, and how it ended, never changes.');
end;
create trigger job_revision before update of revision on job
when new.revision <> old.revision and new.revision <> old.revision + 1
begin
  select raise(abort, 'The revision of a job goes up by one with each change.');
end;
-- Of what raw statements change without counting a revision.
create trigger job_touched after update of
  queue, priority, position, retry_policy, max_retries, run_at, timeout_seconds, deadline_at, job_key, serial_key, created_by, tags on job
when new.revision = old.revision and new.updated_at = old.updated_at
begin
  update job set updated_at = old.updated_at + 1 where id = new.id;
end;
create trigger job_known before insert on job
when not exists (select 1 from tenant where id = new.tenant_id) or not exists (select 1 from agent where id = new.agent_id)
begin
  select raise(abort, 'A job needs a tenant and an agent that there are.');
end;
create trigger history_of_a_change before insert on job_history
when not exists (select 1 from job where id = new.job_id and revision = new.revision)
begin
  select raise(abort, 'Rows of job_history are written by the database only.');
end;
create trigger run_params before update of params_snapshot on job_run
when new.params_snapshot is not old.params_snapshot
begin
  select raise(abort, 'Rows of job_run are never changed.');
end;

create trigger run_write_once before update on job_run
when old.status <> 'RUNNING'
begin
  select raise(abort, 'A closed run never changes.');
end;
create trigger run_closed_by_hand before update of status on job_run
when old.status = 'RUNNING' and new.status <> 'RUNNING'
  and exists (select 1 from job where id = old.job_id and run_id = old.id)
begin
  select raise(abort, 'A run closes only with its job: change job.status.');
end;
create trigger run_no_insert before insert on job_run
when not exists (select 1 from job where id = new.job_id and run_id = new.id)
begin
  select raise(abort, 'A run opens only with its job: set job.status to RUNNING and job.run_id to its id.');
end;
create trigger run_no_delete before delete on job_run
when exists (select 1 from job where id = old.job_id)
begin
  select raise(abort, 'Rows of job_run go only with their whole job.');
end;

-- ---------------------------------------------------------------------------
-- What follows from a change of a job
-- ---------------------------------------------------------------------------

-- A procedure, in SQLite's way: `insert into key_to_settle` runs the trigger.
-- Of the entries with one serial key, the first is ready while no worker runs that key; all others are blocked.
create view key_to_settle as select null as tenant_id, null as serial_key;
create trigger settle_serial_key instead of insert on key_to_settle
begin
  update queue_entry set state = 'blocked'
  where tenant_id = new.tenant_id and serial_key = new.serial_key and state = 'ready';

  update queue_entry set state = 'ready'
  where job_id = (
      select job_id from queue_entry
      where tenant_id = new.tenant_id and serial_key = new.serial_key and state in ('ready', 'blocked')
      order by rank, position, created_at, job_id limit 1)
    and not exists (
      select 1 from job_run
      where tenant_id = new.tenant_id and serial_key = new.serial_key and status = 'RUNNING' and worker_id is not null);
end;

-- A key is settled anew whenever one of its entries comes, falls due or goes, and when its run ends.
create trigger keyed_entry_came after insert on queue_entry when new.state = 'blocked'
begin
  insert into key_to_settle values (new.tenant_id, new.serial_key);
end;
create trigger keyed_entry_fell_due after update of state on queue_entry when old.state = 'later' and new.state = 'blocked'
begin
  insert into key_to_settle values (new.tenant_id, new.serial_key);
end;
create trigger keyed_entry_went after delete on queue_entry when old.serial_key is not null
begin
  insert into key_to_settle values (old.tenant_id, old.serial_key);
end;
create trigger keyed_run_ended after update of status on job_run when new.serial_key is not null and new.status <> 'RUNNING'
begin
  insert into key_to_settle values (new.tenant_id, new.serial_key);
end;

create trigger entry_came after insert on queue_entry
begin
  insert into entry_count (scope, name, state, entries) values ('queue', new.queue, new.state, 1)
    on conflict (scope, name, state) do update set entries = entries + 1;
  insert into entry_count (scope, name, state, entries)
    select 'tenant', new.tenant_id, new.state, 1 where new.queue <> 'cortex'
    on conflict (scope, name, state) do update set entries = entries + 1;
end;
create trigger entry_went after delete on queue_entry
begin
  update entry_count set entries = entries - 1 where scope = 'queue' and name = old.queue and state = old.state;
  update entry_count set entries = entries - 1
    where scope = 'tenant' and name = old.tenant_id and state = old.state and old.queue <> 'cortex';
end;
create trigger entry_changed after update of queue, tenant_id, state on queue_entry
when new.queue <> old.queue or new.tenant_id <> old.tenant_id or new.state <> old.state
begin
  update entry_count set entries = entries - 1 where scope = 'queue' and name = old.queue and state = old.state;
  update entry_count set entries = entries - 1
    where scope = 'tenant' and name = old.tenant_id and state = old.state and old.queue <> 'cortex';
  insert into entry_count (scope, name, state, entries) values ('queue', new.queue, new.state, 1)
    on conflict (scope, name, state) do update set entries = entries + 1;
  insert into entry_count (scope, name, state, entries)
    select 'tenant', new.tenant_id, new.state, 1 where new.queue <> 'cortex'
    on conflict (scope, name, state) do update set entries = entries + 1;
end;

create trigger job_asking after update of status on job
when (new.status = 'WAITING_FOR_APPROVAL') <> (old.status = 'WAITING_FOR_APPROVAL')
begin
  insert into entry_count (scope, name, state, entries)
  values ('asking', new.queue, 'held', iif(new.status = 'WAITING_FOR_APPROVAL', 1, -1))
    on conflict (scope, name, state) do update set entries = entries + excluded.entries;
end;

create trigger job_tagged after insert on job
when new.tags <> '[]'
begin
  insert or ignore into job_tag (tag, job_id) select value, new.id from json_each(new.tags);
end;

create trigger job_inserted after insert on job
begin
  insert into job_history (job_id, revision, new_status, cause, actor, created_at)
  values (new.id, new.revision, new.status, new.cause, new.actor, new.created_at);

  update counter set value = max(value, new.position) where name = 'position';
  update counter set value = max(value + 1, coalesce(new.worker_job_id, 0)) where name = 'queue_entry';

  insert into queue_entry
    (id, job_id, tenant_id, queue, job_type, state, rank, position, created_at, due_at, serial_key, by_tenant)
  values (
    coalesce(new.worker_job_id, (select value from counter where name = 'queue_entry')),
    new.id, new.tenant_id, new.queue, new.job_type,
    case
      when new.run_at > new.updated_at then 'later'
      when new.serial_key is not null then 'blocked'
      else 'ready'
    end,
    -new.priority, new.position, new.created_at, coalesce(new.run_at, new.created_at), new.serial_key,
    new.queue <> 'cortex' and exists (
      select 1 from control
      where (scope = 'tenant' and name = new.tenant_id and (paused or max_running is not null))
        or (scope = 'queue' and name = new.queue and fair_share)));
end;

-- A deadline that is given as a length counts from the submission. A child's is never later than that of a parent that goes on.
create trigger job_has_deadline after insert on job
when new.deadline_at is not null or new.deadline_seconds is not null or new.parent_id is not null
begin
  update job
  set deadline_at = (
    select min(at) from (
      select coalesce(new.deadline_at, new.created_at + cast(round(1000000 * new.deadline_seconds) as integer)) as at
      union all
      select p.deadline_at from job p where p.id = new.parent_id and p.finished_at is null))
  where id = new.id;
  insert or ignore into job_deadline (job_id, at)
  select id, deadline_at from job where id = new.id and deadline_at is not null;
end;

create trigger job_deadline_moved after update of deadline_at on job
when new.deadline_at is not old.deadline_at and new.finished_at is null
begin
  delete from job_deadline where job_id = new.id;
  insert into job_deadline (job_id, at) select new.id, new.deadline_at where new.deadline_at is not null;
end;

create trigger job_deadline_over after update of status on job
when new.deadline_at is not null and new.finished_at is not null and old.finished_at is null
begin
  delete from job_deadline where job_id = new.id;
end;

create trigger job_changed after update of status on job
when new.status <> old.status
begin
  insert into job_history
    (job_id, revision, previous_status, new_status, cause, actor, run_id, metadata, created_at)
  values (
    new.id, max(new.revision, old.revision + 1), old.status, new.status,
    iif(new.revision = old.revision, 'sql', new.cause),
    iif(new.revision = old.revision, null, new.actor),
    coalesce(new.run_id, old.run_id),
    case
      when new.status = 'FAILED' then
        json_patch(
          iif(new.note is null or new.revision = old.revision, '{}', new.note),
          json_object('error_message', new.error_message))
      when new.status = 'RETRY' then
        json_patch(
          iif(new.note is null or new.revision = old.revision, '{}', new.note),
          json_object(
            'retry_count', new.retry_count,
            'wait_reason', new.wait_reason,
            'next_retry_at', strftime('%Y-%m-%dT%H:%M:%S', new.next_retry_at / 1000000, 'unixepoch')
              || iif(new.next_retry_at % 1000000, printf('.%06d', new.next_retry_at % 1000000), '') || '+00:00'))
      when new.revision <> old.revision then new.note
    end,
    new.updated_at);
end;

create trigger job_changed_by_raw_sql after update of status on job
when new.status <> old.status and new.revision = old.revision
begin
  update job set revision = old.revision + 1, cause = 'sql', actor = null, note = null where id = new.id;
end;

-- The run is there before the entry goes: whoever settles the key at that moment finds it held.
create trigger job_started after update of status on job
when new.status = 'RUNNING' and old.status <> 'RUNNING'
begin
  insert into job_run
    (id, job_id, attempt, worker_id, tenant_id, queue, job_type, serial_key, template_id, params_snapshot,
     started_at)
  values (new.run_id, new.id, new.attempt, new.worker_id, new.tenant_id, new.queue, new.job_type,
    new.serial_key, new.template_id, new.payload, new.updated_at);
  delete from queue_entry where job_id = new.id;
end;

create trigger job_ended_in_the_queue after update of status on job
when (old.status = 'PENDING' or old.status = 'RETRY') and (new.status = 'CANCELLED' or new.status = 'FAILED')
begin
  delete from queue_entry where job_id = new.id;
end;

create trigger job_stopped after update of status on job
when old.status = 'RUNNING' and new.status <> 'RUNNING'
begin
  update job_run
  set finished_at = new.updated_at,
    error = iif(new.status = 'FAILED' or new.status = 'RETRY', json_extract(new.error, '$.message'), null),
    error_details = iif(new.status = 'FAILED' or new.status = 'RETRY', new.error, null),
    closed_by = iif(new.revision = old.revision, 'sql', coalesce(new.actor, new.cause)),
    exit_code = iif(new.revision = old.revision, null, json_extract(new.note, '$.run.exit_code')),
    log_path = iif(new.revision = old.revision, null, json_extract(new.note, '$.run.log_path')),
    artifacts = iif(new.revision = old.revision, artifacts, coalesce(json_extract(new.note, '$.run.artifacts'), artifacts)),
    status = case
      when new.status = 'COMPLETED' then 'COMPLETED'
      when new.status = 'CANCELLED' then 'CANCELLED'
      when new.status = 'WAITING_FOR_APPROVAL' then 'WAITING'
      when new.wait_reason = 'sleep' or new.wait_reason = 'child' then 'SLEEPING'
      when new.wait_reason in ('interrupted', 'handed_back', 'code_changed') then 'INTERRUPTED'
      else 'FAILED'
    end
  where job_id = new.id and id = old.run_id and status = 'RUNNING';
end;

create trigger job_went_back_to_the_queue after update of status on job
when old.status = 'RUNNING' and new.status = 'RETRY'
begin
  update counter set value = value + 1 where name = 'queue_entry';
  update job set worker_job_id = (select value from counter where name = 'queue_entry') where id = new.id;
  insert into queue_entry
    (id, job_id, tenant_id, queue, job_type, state, rank, position, created_at, due_at, serial_key, by_tenant)
  values (
    (select value from counter where name = 'queue_entry'),
    new.id, new.tenant_id, new.queue, new.job_type,
    case
      when new.next_retry_at > new.updated_at then 'later'
      when new.serial_key is not null then 'blocked'
      else 'ready'
    end,
    -new.priority, new.position, new.created_at, new.next_retry_at, new.serial_key,
    new.queue <> 'cortex' and exists (
      select 1 from control
      where (scope = 'tenant' and name = new.tenant_id and (paused or max_running is not null))
        or (scope = 'queue' and name = new.queue and fair_share)));
end;

create trigger job_audited after update of status on job
when (new.status = 'COMPLETED' or new.status = 'CANCELLED') and new.status <> old.status and new.queue <> 'cortex'
begin
  insert into audit_log (at, tenant_id, actor, action, object_type, object_id, reason)
  values (new.updated_at, new.tenant_id, iif(new.revision = old.revision, null, new.actor),
    iif(new.status = 'COMPLETED', 'JOB_COMPLETED', 'JOB_CANCELLED'), 'job', new.id,
    iif(new.revision = old.revision, null, new.note ->> 'reason'));
end;

-- Every failure that nothing follows: no retries are left, or there were none for it.
create trigger job_failed after update of status on job
when new.status = 'FAILED' and old.status <> 'FAILED'
  and (new.revision = old.revision or json_extract(new.note, '$.retry_as') is null)
begin
  insert into audit_log (at, tenant_id, actor, action, object_type, object_id, details)
  values (new.updated_at, new.tenant_id, iif(new.revision = old.revision, null, new.actor),
    iif(new.revision <> old.revision and json_extract(new.note, '$.exhausted'), 'JOB_EXHAUSTED_RETRIES', 'JOB_FAILED'), 'job', new.id,
    json_object('job_type', new.job_type, 'retry_count', new.retry_count,
      'cause', iif(new.revision = old.revision, 'sql', new.cause),
      'error', json_extract(new.error, '$.type'), 'error_message', new.error_message));
end;

-- Also for clients that do not switch foreign keys on.
create trigger job_deleted after delete on job
begin
  delete from job_history where job_id = old.id;
  delete from job_run where job_id = old.id;
  delete from queue_entry where job_id = old.id;
  delete from job_deadline where job_id = old.id;
  update entry_count set entries = entries - 1
    where scope = 'asking' and name = old.queue and state = 'held' and old.status = 'WAITING_FOR_APPROVAL';
  delete from job_tag where tag in (select value from json_each(old.tags)) and job_id = old.id;
  insert into key_to_settle select old.tenant_id, old.serial_key where old.serial_key is not null;
end;
