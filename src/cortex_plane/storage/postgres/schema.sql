-- The schema of a PostgreSQL database, as version 1 of it. Changes after a release are migrations, in the folder beside this file.
--
-- Tables stand in the order of the nouns, each with its indexes and comments. Then come functions and triggers: what the database
-- refuses, what follows from a change of a job, and what workers and programs call.
--
--   who writes what
--     job            every client, within the thirteen transitions; the single source of truth
--     job_run        triggers of job: a run opens and closes with its job's state
--     job_history    triggers of job: one row for each transition, never changed
--     queue_entry    triggers of job: one row for each job that waits to be claimed
--
-- So a client that only knows `update cortex.job` cannot leave a RUNNING job without a run, a waiting job without a queue entry, or
-- a transition without its history.
--
-- Lock order:
--   the advisory locks below, grant, schedule, slot, group, queue entry, job, run, approval request; the worker last
-- What workers call waits for no row that another transaction has locked: it skips the row, or gives up after the lock_timeout of the
-- function and is called again with the rest.
--
-- Advisory locks:
--   1129270867, hash of a serial key   held while the entries of that key are settled; tried, never waited for
--   1129270868, 0                      shared by every claim, exclusive for a change of a control or a reservation: no claim begins after it
--   1129270868, 1                      held by a claim while limits, shares or reservations apply: take the lock first, then count
--   1129270868, 3                      held while the counts of entries are folded
--   1129270869, hash of a worker       shared by each claim of that worker, exclusive for ending the worker
--   1129270870, hash of a worker       held while that worker is declared LOST

-- the clock and ids -------------------------------------------------------------------------------

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

-- installation ------------------------------------------------------------------------------------

create table cortex.migration (
  version int primary key,
  name text not null,
  checksum text not null,
  applied_at timestamptz not null default cortex.now()
);

comment on table cortex.migration is 'The numbered migrations that this database has had.';
comment on column cortex.migration.version is 'Number of the file.';
comment on column cortex.migration.name is 'Name of the file.';
comment on column cortex.migration.checksum is 'SHA-256 of its text.';
comment on column cortex.migration.applied_at is 'When it was applied.';

-- tenants -----------------------------------------------------------------------------------------

create table cortex.tenant (
  id uuid primary key default cortex.uuid7(),
  name text not null unique check (name <> ''),
  created_at timestamptz not null default cortex.now()
);
insert into cortex.tenant (id, name) values ('00000000-0000-7000-8000-000000000000', 'default');

comment on table cortex.tenant is 'Who owns jobs. The tenant named default always exists.';
comment on column cortex.tenant.id is 'UUIDv7.';
comment on column cortex.tenant.name is 'Unique name.';
comment on column cortex.tenant.created_at is 'When it was added.';

-- audit -------------------------------------------------------------------------------------------
-- Every client appends to the log concurrently. A background task then seals the entries in batches; each seal is one row of a hash chain.
--
-- An entry may draw its number before another and commit after it. A seal must not pass over such an entry, so a writer takes a
-- transaction id before it draws a number (audit_takes_transaction_id). Every writer that drew a number before a look then has an id
-- below the id of the look; when all ids up to that one have ended, no entry can still appear below what the look saw.
-- (The xmax of a snapshot would not do as the limit: transactions above it may be running.)

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
-- For searches, newest first. The entries of one object are few; audit_log_of_object serves them. Completions are most of all
-- entries and are not searched by actor, action or tenant, so they are left out: each of these indexes would cost every job.
create index audit_log_newest on cortex.audit_log (at, seq);
create index audit_log_of_actor on cortex.audit_log (actor, at, seq) where actor is not null and action <> 'JOB_COMPLETED';
create index audit_log_of_action on cortex.audit_log (action, at, seq) where action <> 'JOB_COMPLETED';
create index audit_log_of_tenant on cortex.audit_log (tenant_id, at, seq) where tenant_id is not null and action <> 'JOB_COMPLETED';

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

create table cortex.audit_seal (
  number bigint primary key check (number > 0),
  first_seq bigint not null,
  last_seq bigint not null,
  entries int not null check (entries > 0),
  fingerprints bytea not null,
  digest text not null check (length(digest) = 64),
  previous_digest text not null check (length(previous_digest) = 64),
  sealed_at timestamptz not null default cortex.now(),
  constraint a_fingerprint_for_each_entry check (length(fingerprints) = entries * 40),
  constraint first_is_not_after_last check (first_seq <= last_seq)
);

comment on table cortex.audit_seal is 'Proves that audit_log is as it was written, a batch in each row. Never changed.';
comment on column cortex.audit_seal.number is 'From 1, without gaps.';
comment on column cortex.audit_seal.first_seq is 'The first entry that was there. It covers all since the seal before.';
comment on column cortex.audit_seal.last_seq is 'The last entry that it covers.';
comment on column cortex.audit_seal.entries is 'How many entries it covers.';
comment on column cortex.audit_seal.fingerprints is 'For each entry, in order: seq in 8 bytes, SHA-256 of the rest in 32.';
comment on column cortex.audit_seal.digest is 'SHA-256 over number, previous digest, time and fingerprints.';
comment on column cortex.audit_seal.previous_digest is 'The digest of the seal before; 64 zeros for the first.';
comment on column cortex.audit_seal.sealed_at is 'When.';

create table cortex.seal_export (
  target text primary key check (length(target) = 64),
  number bigint not null check (number > 0)
);

comment on table cortex.seal_export is 'Which seals were sent elsewhere.';
comment on column cortex.seal_export.target is 'SHA-256 of the address.';
comment on column cortex.seal_export.number is 'The last seal that was sent.';

-- How far the audit log was pruned, in one row. Only entries up to this mark can be deleted. The mark moves only to the end of a seal
-- that a rule no longer keeps, and only after the pruning was recorded in the log.
create table cortex.audit_pruned (
  id integer primary key check (id = 1),
  seal bigint not null,
  digest text not null check (length(digest) = 64),
  last_seq bigint not null,
  pruned_at timestamptz not null
);
insert into cortex.audit_pruned (id, seal, digest, last_seq, pruned_at)
values (1, 0, repeat('0', 64), -9223372036854775808, 'epoch');

comment on table cortex.audit_pruned is 'How far the audit log was pruned, in one row.';
comment on column cortex.audit_pruned.id is '1.';
comment on column cortex.audit_pruned.seal is 'The last seal whose entries were pruned; 0 before the first time.';
comment on column cortex.audit_pruned.digest is 'The digest of that seal.';
comment on column cortex.audit_pruned.last_seq is 'The last entry that it covered.';
comment on column cortex.audit_pruned.pruned_at is 'When.';

-- agents ------------------------------------------------------------------------------------------

create table cortex.agent (
  id uuid primary key default cortex.uuid7(),
  job_type text not null unique check (job_type <> ''),
  skill_config jsonb not null default '{}',
  created_at timestamptz not null default cortex.now(),
  updated_at timestamptz not null default cortex.now()
);

comment on table cortex.agent is 'The kinds of work. A plane or worker that starts writes the agents that it has in code.';
comment on column cortex.agent.id is 'UUIDv7.';
comment on column cortex.agent.job_type is 'The name under which jobs ask for this agent.';
comment on column cortex.agent.skill_config is 'Queue, retry policy, crash policy and limits, as declared in code.';
comment on column cortex.agent.created_at is 'When it was first seen.';
comment on column cortex.agent.updated_at is 'When its configuration last changed.';

-- people ------------------------------------------------------------------------------------------
-- Who decides, how they are reached, and what they may do.
-- An account with an owner is a service account: programs act as it with its API keys. It has no password and cannot decide approvals.

create table cortex.user_account (
  id uuid primary key default cortex.uuid7(),
  name text not null unique check (name <> ''),
  display_name text check (display_name <> ''),
  email text check (email like '%_@_%'),
  owner_id uuid references cortex.user_account (id),
  created_at timestamptz not null default cortex.now(),
  disabled_at timestamptz,
  constraint nobody_owns_themselves check (owner_id <> id)
);

comment on table cortex.user_account is 'A person who submits, watches or decides.';
comment on column cortex.user_account.id is 'UUIDv7.';
comment on column cortex.user_account.name is 'What they sign in with, and what audit entries call them.';
comment on column cortex.user_account.display_name is 'What others are shown.';
comment on column cortex.user_account.email is 'Where mail reaches them.';
comment on column cortex.user_account.owner_id is 'The admin who owns this service account; null for a person.';
comment on column cortex.user_account.created_at is 'When the account was made.';
comment on column cortex.user_account.disabled_at is 'Since when it may do nothing.';

create table cortex.user_group (
  id uuid primary key default cortex.uuid7(),
  tenant_id uuid not null references cortex.tenant (id),
  name text not null check (name <> ''),
  created_at timestamptz not null default cortex.now(),
  unique (tenant_id, name)
);

comment on table cortex.user_group is 'People who may be asked together.';
comment on column cortex.user_group.id is 'UUIDv7.';
comment on column cortex.user_group.tenant_id is 'Whose group it is.';
comment on column cortex.user_group.name is 'Unique in its tenant.';
comment on column cortex.user_group.created_at is 'When it was made.';

create table cortex.group_member (
  group_id uuid not null references cortex.user_group (id) on delete cascade,
  user_account_id uuid not null references cortex.user_account (id) on delete cascade,
  primary key (group_id, user_account_id)
);
create index group_member_of_user on cortex.group_member (user_account_id);

comment on table cortex.group_member is 'Who is in which group.';
comment on column cortex.group_member.group_id is 'The group.';
comment on column cortex.group_member.user_account_id is 'The member.';

create table cortex.channel_mapping (
  id uuid primary key default cortex.uuid7(),
  user_account_id uuid not null references cortex.user_account (id) on delete cascade,
  channel_type text not null check (channel_type <> ''),
  channel_user_id text not null check (channel_user_id <> ''),
  created_at timestamptz not null default cortex.now(),
  unique (channel_type, channel_user_id)
);
create index channel_mapping_of_user on cortex.channel_mapping (user_account_id);

comment on table cortex.channel_mapping is 'How a person is reached: one row for each address.';
comment on column cortex.channel_mapping.id is 'UUIDv7.';
comment on column cortex.channel_mapping.user_account_id is 'Who is reached.';
comment on column cortex.channel_mapping.channel_type is 'By which service.';
comment on column cortex.channel_mapping.channel_user_id is 'Their address or id there.';
comment on column cortex.channel_mapping.created_at is 'When it was linked.';

create table cortex.session (
  id uuid primary key default cortex.uuid7(),
  tenant_id uuid not null default '00000000-0000-7000-8000-000000000000' references cortex.tenant (id),
  user_account_id uuid not null references cortex.user_account (id),
  agent_id uuid references cortex.agent (id),
  channel text,
  created_at timestamptz not null default cortex.now(),
  ended_at timestamptz
);
create index session_of_user on cortex.session (user_account_id, id);
create index session_of_tenant on cortex.session (tenant_id, id);

comment on table cortex.session is 'The conversation or request that started jobs.';
comment on column cortex.session.id is 'UUIDv7; job.session_id names it.';
comment on column cortex.session.tenant_id is 'Whose jobs may come out of it.';
comment on column cortex.session.user_account_id is 'Whose it is: the approver when a gate names nobody.';
comment on column cortex.session.agent_id is 'The agent that was spoken to.';
comment on column cortex.session.channel is 'Where it took place.';
comment on column cortex.session.created_at is 'When it began.';
comment on column cortex.session.ended_at is 'When it ended: from then on no job is submitted from it, and its user is not asked by default.';

-- A role without a tenant applies to all tenants.
create table cortex.user_role (
  user_account_id uuid not null references cortex.user_account (id) on delete cascade,
  tenant_id uuid references cortex.tenant (id),
  role text not null check (role in ('viewer', 'submitter', 'operator', 'approver', 'admin'))
);
create unique index user_role_once
  on cortex.user_role (user_account_id, coalesce(tenant_id, '00000000-0000-0000-0000-000000000000'), role);

comment on table cortex.user_role is 'What a person may do.';
comment on column cortex.user_role.user_account_id is 'Who.';
comment on column cortex.user_role.tenant_id is 'Where; null is everywhere.';
comment on column cortex.user_role.role is 'What.';

create table cortex.user_password (
  user_account_id uuid primary key references cortex.user_account (id) on delete cascade,
  hash text not null check (hash like '$argon2id$%'),
  changed_at timestamptz not null default cortex.now()
);

comment on table cortex.user_password is 'How a person signs in with a password.';
comment on column cortex.user_password.user_account_id is 'Whose password.';
comment on column cortex.user_password.hash is 'Its argon2id hash. Secret.';
comment on column cortex.user_password.changed_at is 'When it was last set.';

create table cortex.login_session (
  token_hash text primary key check (length(token_hash) = 64),
  user_account_id uuid not null references cortex.user_account (id) on delete cascade,
  created_at timestamptz not null default cortex.now(),
  last_used_at timestamptz not null default cortex.now(),
  expires_at timestamptz not null
);
create index login_session_of_user on cortex.login_session (user_account_id);
create index login_session_expiry on cortex.login_session (expires_at);

comment on table cortex.login_session is 'Browsers that are signed in.';
comment on column cortex.login_session.token_hash is 'SHA-256 of the cookie, in hexadecimal. Secret.';
comment on column cortex.login_session.user_account_id is 'Who is signed in.';
comment on column cortex.login_session.created_at is 'Since when.';
comment on column cortex.login_session.last_used_at is 'When it was last seen, roughly.';
comment on column cortex.login_session.expires_at is 'Until when.';

create table cortex.api_key (
  id uuid primary key default cortex.uuid7(),
  tenant_id uuid references cortex.tenant (id),
  name text not null check (name <> ''),
  prefix text not null check (length(prefix) between 8 and 24),
  hash text not null unique check (length(hash) = 64),
  roles jsonb not null check (jsonb_typeof(roles) = 'array' and jsonb_array_length(roles) > 0),
  user_account_id uuid references cortex.user_account (id) on delete cascade,
  created_by text,
  created_at timestamptz not null default cortex.now(),
  last_used_at timestamptz,
  expires_at timestamptz,
  revoked_at timestamptz
);
create index api_key_of_tenant on cortex.api_key (tenant_id);
create index api_key_of_user on cortex.api_key (user_account_id);
create index api_key_by_prefix on cortex.api_key (prefix);

comment on table cortex.api_key is 'Keys of programs.';
comment on column cortex.api_key.id is 'UUIDv7.';
comment on column cortex.api_key.tenant_id is 'Where it works; null is everywhere.';
comment on column cortex.api_key.name is 'What it is for.';
comment on column cortex.api_key.prefix is 'The beginning of the key, to know it by.';
comment on column cortex.api_key.hash is 'SHA-256 of the whole key, in hexadecimal. Secret.';
comment on column cortex.api_key.roles is 'What it may do: a list of roles.';
comment on column cortex.api_key.user_account_id is 'Whose it is: it never may more than they may. Null: the installation''s own, made with the database.';
comment on column cortex.api_key.created_by is 'Who made it.';
comment on column cortex.api_key.created_at is 'When.';
comment on column cortex.api_key.last_used_at is 'When it was last used, roughly.';
comment on column cortex.api_key.expires_at is 'Until when it works; null is for ever.';
comment on column cortex.api_key.revoked_at is 'Since when it was taken back.';

-- costs -------------------------------------------------------------------------------------------

-- Totals never decrease: the cost of a deleted job stays.
-- In parts: a transaction that finds all parts locked adds one, so that two batches of the same agent do not wait for each other.
-- Half of each page is left free, so that rows are rewritten in place.
create table cortex.cost_total (
  tenant_id uuid not null,
  job_type text not null,
  cents bigint not null check (cents >= 0),
  part bigint generated always as identity,
  primary key (tenant_id, job_type, part)
) with (fillfactor = 50);
create index cost_total_of_agent on cortex.cost_total (job_type);

comment on table cortex.cost_total is 'What the jobs of each tenant and agent have cost so far, deleted ones included.';
comment on column cortex.cost_total.tenant_id is 'Whose jobs.';
comment on column cortex.cost_total.job_type is 'Of which agent.';
comment on column cortex.cost_total.cents is 'What they have cost.';
comment on column cortex.cost_total.part is 'Which part of the total of this agent and tenant it is.';

create table cortex.billing_account (
  id uuid primary key default cortex.uuid7(),
  tenant_id uuid not null references cortex.tenant (id),
  name text not null check (name <> ''),
  default_virtual_key_id text not null check (default_virtual_key_id <> ''),
  created_at timestamptz not null default cortex.now(),
  unique (tenant_id, name)
);

comment on table cortex.billing_account is 'Who is charged for runs that are started under a grant.';
comment on column cortex.billing_account.id is 'UUIDv7.';
comment on column cortex.billing_account.tenant_id is 'Whose account it is.';
comment on column cortex.billing_account.name is 'Its name, unique for the tenant.';
comment on column cortex.billing_account.default_virtual_key_id is 'The key that runs are charged to.';
comment on column cortex.billing_account.created_at is 'When it was made.';

-- jobs --------------------------------------------------------------------------------------------

create type cortex.job_status as enum (
  'PENDING', 'RUNNING', 'COMPLETED', 'FAILED', 'WAITING_FOR_APPROVAL', 'RETRY', 'CANCELLED'
);

-- Positions are spaced, so that a job can be moved between two others by changing one row.
create sequence cortex.job_position as bigint increment by 100 start with 100;
create sequence cortex.queue_entry_id as bigint;

-- Domains check a field when it is assigned. Check constraints of the table would run at every change of the row: saving a checkpoint
-- would wait about 3 µs for each of them.
create domain cortex.queue_name as text check (value <> '');
create domain cortex.priority as int check (value between -1000000 and 1000000);
create domain cortex.retries as int check (value between 0 and 100);
create domain cortex.tally as int check (value >= 0);
create domain cortex.seconds as double precision check (value > 0);
create domain cortex.cents as bigint check (value >= 0);
create domain cortex.tags as jsonb check (jsonb_typeof(value) = 'array');

-- Claim and finish rewrite the row in place (HOT) and touch no index. Therefore no index of this table contains a column that a
-- transition changes, and more than half of each page is left free: one transaction may rewrite every row of a page, with longer rows.
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
  finished_at timestamptz,
  checkpoint_id uuid,
  cancel_with_parent boolean not null default false,
  cleanup_seconds double precision,
  cancel_requested_at timestamptz,
  cancel_request json,
  request_id uuid,
  trace_id text
) with (fillfactor = 40, toast_tuple_target = 4080);

-- A checkpoint is replaced at every step. Up to half a page it stays in its row uncompressed, so that the row is rewritten in place.
-- (Batches of 100 documents of 2 KiB: 38 µs a row when they are compressed, 24 when not, of which 13 are parsing.)
do $$ begin
  alter table cortex.job alter column checkpoint set compression lz4;
exception when feature_not_supported then
  alter table cortex.job alter column checkpoint set storage external;
end $$;
create index job_of_agent on cortex.job (agent_id, id);
create index job_of_queue on cortex.job (queue, id);
create index job_of_tenant on cortex.job (tenant_id, id);
create unique index job_retry_of on cortex.job (retry_of) where retry_of is not null;
-- Neither column changes, so a transition still rewrites its row in place.
create index job_of_group on cortex.job (group_id, id) where group_id is not null;
-- The column never changes, so no transition writes to this index.
create index job_of_parent on cortex.job (parent_id) where parent_id is not null;
-- These columns never change, so no transition writes to these indexes.
create index job_of_schedule on cortex.job (schedule_id) where schedule_id is not null;
create index job_of_request on cortex.job (request_id) where request_id is not null;

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
comment on column cortex.job.checkpoint_id is 'Id of the newest snapshot; the next one must name it.';
comment on column cortex.job.cleanup_seconds is 'It has an open cleanup scope, and may take so long to clean up; null: it has none.';
comment on column cortex.job.cancel_requested_at is 'When it was asked to end; it is called once more to clean up.';
comment on column cortex.job.cancel_request is 'How it ends then: status, cause, actor, note, error.';
comment on column cortex.job.cancel_with_parent is 'It is cancelled when the job that called it ends FAILED or CANCELLED.';
comment on column cortex.job.request_id is 'The request under a grant that it was started for.';
comment on column cortex.job.trace_id is 'The W3C trace that it belongs to.';

-- Jobs by tag. A separate table, because most jobs have no tags, and an index over lists cannot be read newest first.
create table cortex.job_tag (
  tag text not null,
  job_id uuid not null,
  primary key (tag, job_id)
);

comment on table cortex.job_tag is 'Jobs by their tags. Written by the triggers of job.';
comment on column cortex.job_tag.tag is 'One of job.tags.';
comment on column cortex.job_tag.job_id is 'Its job.';

-- The job that has each job key: the last one that was submitted with it.
create table cortex.job_key (
  tenant_id uuid not null,
  job_key text not null,
  job_id uuid not null,
  primary key (tenant_id, job_key)
);

comment on table cortex.job_key is 'Which job holds a job key: the last that was submitted with it.';
comment on column cortex.job_key.tenant_id is 'Keys are unique within a tenant.';
comment on column cortex.job_key.job_key is 'The key.';
comment on column cortex.job_key.job_id is 'The job.';

-- Jobs that have a deadline and have not ended. A separate table, because an index on job would contain ended jobs too.
create table cortex.job_deadline (
  job_id uuid primary key,
  at timestamptz not null
);
create index job_deadline_next on cortex.job_deadline (at);

comment on table cortex.job_deadline is 'Jobs that have a deadline and have not ended. Written by the triggers of job.';
comment on column cortex.job_deadline.job_id is 'Its job.';
comment on column cortex.job_deadline.at is 'Copy of job.deadline_at.';

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

-- Open runs. A separate table: an index of job_run over open runs would contain a column that closing a run changes, and each end of a
-- run would then write to every index of job_run instead of updating in place (HOT).
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
-- The guarantee of serial_key: at most one open run with a worker for each key.
create unique index open_run_one_for_each_serial_key on cortex.open_run (tenant_id, serial_key)
  where worker_id is not null and serial_key is not null;

comment on table cortex.open_run is 'Runs that are open: what job_run says of them, to be found by worker and by serial key. Written by the triggers of job.';
comment on column cortex.open_run.job_id is 'Its job.';
comment on column cortex.open_run.id is 'The run id.';
comment on column cortex.open_run.worker_id is 'The worker that owns it; null while none does.';
comment on column cortex.open_run.tenant_id is 'Tenant of the job.';
comment on column cortex.open_run.queue is 'Queue of the job.';
comment on column cortex.open_run.job_type is 'Agent of the job.';
comment on column cortex.open_run.serial_key is 'Serial key of the job.';

-- The id is derived: a random id needs a system call, which costs more than the rest of the row.
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

-- How far the reconciler has checked the jobs for inconsistencies, and when. One row.
create table cortex.job_reconciler (
  id integer primary key check (id = 1),
  reconciled_at timestamptz not null,
  after uuid not null
);
insert into cortex.job_reconciler (id, reconciled_at, after) values (1, 'epoch', '00000000-0000-0000-0000-000000000000');

comment on table cortex.job_reconciler is 'One row: how far the jobs have been looked through for such as need mending.';
comment on column cortex.job_reconciler.id is 'Always 1.';
comment on column cortex.job_reconciler.reconciled_at is 'When somebody last looked.';
comment on column cortex.job_reconciler.after is 'The last job of the page that was looked at.';

-- checkpoints, events and holds -------------------------------------------------------------------

-- Large results, and the sealed segments of long checkpoints, which are numbered by seq.
-- A result of a few KiB is not compressed either (22 µs instead of 80).
create table cortex.job_blob (
  job_id uuid not null,
  sha256 text not null check (length(sha256) = 64),
  content text not null,
  seq int check (seq > 0),
  created_at timestamptz not null default cortex.now(),
  primary key (job_id, sha256)
) with (toast_tuple_target = 8160);
create unique index job_blob_segment on cortex.job_blob (job_id, seq) where seq is not null;

comment on table cortex.job_blob is 'Large results and sealed segments that checkpoints refer to. Never changed; they go with their job.';
comment on column cortex.job_blob.job_id is 'Its job.';
comment on column cortex.job_blob.sha256 is 'SHA-256 of the content, 64 hexadecimal digits; what the checkpoint holds instead.';
comment on column cortex.job_blob.content is 'The result or the segment, as JSON text.';
comment on column cortex.job_blob.seq is 'Number of a segment in its job, from 1; null for a result.';
comment on column cortex.job_blob.created_at is 'When it was saved.';

create table cortex.job_event (
  seq bigint generated always as identity primary key,
  job_id uuid not null,
  run_id uuid not null,
  at timestamptz not null,
  kind text not null check (kind <> ''),
  data jsonb not null
);
create index job_event_of_job on cortex.job_event (job_id, seq);

comment on table cortex.job_event is 'What runs tell while they go on, for people who watch. They go with their job.';
comment on column cortex.job_event.seq is 'The order in which they were written.';
comment on column cortex.job_event.job_id is 'Of which job.';
comment on column cortex.job_event.run_id is 'Of which run.';
comment on column cortex.job_event.at is 'When it happened.';
comment on column cortex.job_event.kind is 'log or progress.';
comment on column cortex.job_event.data is 'What was told.';

-- Versions of the code that did not fit the record of a job. A worker with one of them hands the job back while other workers may
-- have code that fits.
create table cortex.job_hold (
  job_id uuid primary key,
  job_type text not null,
  codes jsonb not null check (jsonb_typeof(codes) = 'array'),
  offered jsonb not null default '[]' check (jsonb_typeof(offered) = 'array'),
  handed_back int not null default 0 check (handed_back >= 0),
  error jsonb,
  held_at timestamptz not null
);
create index job_hold_of_agent on cortex.job_hold (job_type);

comment on table cortex.job_hold is 'Jobs whose record did not fit the code of a worker, and which code that was. Rows go with their job.';
comment on column cortex.job_hold.job_id is 'Its job.';
comment on column cortex.job_hold.job_type is 'The agent.';
comment on column cortex.job_hold.codes is 'Fingerprints of the code that did not fit.';
comment on column cortex.job_hold.offered is 'Fingerprints of other code that it was made due for since it was tried last.';
comment on column cortex.job_hold.handed_back is 'How often a worker whose code does not fit has claimed it since, and handed it back.';
comment on column cortex.job_hold.error is 'Where record and code differ.';
comment on column cortex.job_hold.held_at is 'When it was tried last.';

-- The checkpoint of a job in the form of the specification, with the log, the tool calls and the recorded steps of its segments included.
-- If a call is in several segments, the newest one counts. `crc32` is that of job.checkpoint.
create function cortex.whole_checkpoint(_job uuid, _checkpoint jsonb) returns jsonb language sql stable as $$
  with sealed as (
    select _checkpoint #> '{memory_context,working_data,$cortex,sealed}' as named
  ), part as (
    select b.seq, b.content::jsonb as content
    from sealed, cortex.job_blob b
    where b.job_id = _job and b.seq between (named ->> 'first')::int and (named ->> 'last')::int
    union all
    select 2147483647, jsonb_build_object(
      'execution_log', _checkpoint -> 'execution_log', 'active_tools', _checkpoint -> 'active_tools',
      'steps', coalesce(_checkpoint #> '{memory_context,working_data,$cortex,steps}', '{}'))
  ), logged as (
    select jsonb_agg(l.entry order by p.seq, l.place) as log
    from part p, jsonb_array_elements(p.content -> 'execution_log') with ordinality as l(entry, place)
  ), tool as (
    select distinct on (t.entry ->> 'invocation_id') t.entry, p.seq, t.place
    from part p, jsonb_array_elements(p.content -> 'active_tools') with ordinality as t(entry, place)
    order by t.entry ->> 'invocation_id', p.seq desc, t.place desc
  ), step as (
    select distinct on (s.key) s.key, s.value
    from part p, jsonb_each(p.content -> 'steps') as s(key, value)
    order by s.key, p.seq desc
  )
  select case when sealed.named is null then _checkpoint else
    jsonb_set(
      jsonb_set(
        jsonb_set(_checkpoint #- '{memory_context,working_data,$cortex,sealed}', '{execution_log}', logged.log),
        '{active_tools}', coalesce((select jsonb_agg(entry order by seq, place) from tool), '[]')),
      '{memory_context,working_data,$cortex,steps}',
      (select jsonb_object_agg(key, value) from step where not value ? 'again'))
    end
  from sealed, logged
$$;
create view cortex.job_checkpoint as
select id as job_id, checkpoint_id, cortex.whole_checkpoint(id, checkpoint::jsonb) as checkpoint
from cortex.job
where checkpoint is not null;
comment on view cortex.job_checkpoint is 'The checkpoint of each job, whole: job.checkpoint with its sealed segments put back; crc32 is that of job.checkpoint.';

-- queues ------------------------------------------------------------------------------------------

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
-- The order over all queues: a worker that serves most queues and agents reads the first entries, no matter how many of them there are.
create index queue_entry_ready_in_order on cortex.queue_entry (rank, position, created_at, job_id)
  where state = 'ready' and not by_tenant;
-- Separate lanes by tenant exist only for tenants with a pause or a limit, and for queues with fair share.
create index queue_entry_ready_by_tenant on cortex.queue_entry (queue, job_type, tenant_id, rank, position, created_at, job_id)
  where state = 'ready' and by_tenant;
-- The order of each queue by state: read by moves, by pages and by `why`.
create index queue_entry_in_order on cortex.queue_entry (queue, state, rank, position, created_at, job_id);
create index queue_entry_ready_of_tenant on cortex.queue_entry (queue, tenant_id, rank, position, created_at, job_id)
  where state = 'ready' and by_tenant;
create index queue_entry_later on cortex.queue_entry (due_at) where state = 'later';
create index queue_entry_of_key on cortex.queue_entry (tenant_id, serial_key, rank, position, created_at, job_id)
  where serial_key is not null and state = 'blocked';
create unique index queue_entry_one_ready_for_each_key on cortex.queue_entry (tenant_id, serial_key)
  where serial_key is not null and state = 'ready';

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

-- Counts of entries by queue and tenant and by state, and of jobs that wait for approval by queue. Each change is inserted as a row, so that
-- writers do not wait for each other; maintenance, or a transaction that finds many, folds changes into the counts. A reader adds both.
create table cortex.entry_count (
  scope text not null check (scope in ('queue', 'tenant', 'asking')),
  name text not null,
  state cortex.entry_state not null,
  entries bigint not null,
  primary key (scope, name, state)
) with (fillfactor = 50);

comment on table cortex.entry_count is 'How many entries each queue and each tenant has, without the latest changes.';
comment on column cortex.entry_count.scope is 'queue or tenant; asking for jobs of a queue that wait for an approval.';
comment on column cortex.entry_count.name is 'The name of the queue, or the id of the tenant.';
comment on column cortex.entry_count.state is 'The state of the entries; held for jobs that wait for an approval.';
comment on column cortex.entry_count.entries is 'How many. The plane''s own are not counted for tenants.';

create table cortex.entry_count_change (
  scope text not null,
  name text not null,
  state cortex.entry_state not null,
  change int not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

comment on table cortex.entry_count_change is 'Changes that are not in entry_count yet. Written by the triggers of queue_entry.';
comment on column cortex.entry_count_change.scope is 'queue or tenant; asking for jobs of a queue that wait for an approval.';
comment on column cortex.entry_count_change.name is 'The name of the queue, or the id of the tenant.';
comment on column cortex.entry_count_change.state is 'The state of the entries; held for jobs that wait for an approval.';
comment on column cortex.entry_count_change.change is 'How many more, or fewer.';

-- Marks: serial keys that the next claim settles. A mark is only an insert: no transaction waits for it, and it counts once it is committed.
create table cortex.key_to_settle (
  id bigint generated always as identity (sequence name cortex.key_to_settle_id) primary key,
  tenant_id uuid not null,
  serial_key text not null
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

comment on table cortex.key_to_settle is 'Serial keys of which the next claim makes the first waiting job ready.';
comment on column cortex.key_to_settle.id is 'In the order in which they were left.';
comment on column cortex.key_to_settle.tenant_id is 'Whose key.';
comment on column cortex.key_to_settle.serial_key is 'The key.';

-- Settings of operators for the gate, a queue, an agent or a tenant. Without a row nothing is set.
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

comment on table cortex.direct_reservation is 'A queue that is held for one job: no other is claimed from it.';
comment on column cortex.direct_reservation.id is 'UUIDv7.';
comment on column cortex.direct_reservation.queue is 'The queue; at most one reservation of it is ACTIVE.';
comment on column cortex.direct_reservation.job_id is 'The job that it is held for.';
comment on column cortex.direct_reservation.reserved_by is 'Who holds it.';
comment on column cortex.direct_reservation.reserved_at is 'Since when.';
comment on column cortex.direct_reservation.expires_at is 'Unless renewed, it ends then; not while its job runs.';
comment on column cortex.direct_reservation.status is 'ACTIVE, RELEASED or EXPIRED.';
comment on column cortex.direct_reservation.ended_at is 'When it was released or expired.';

-- Turns that each tenant has had in a queue with fair share. The tenant of zeros is the clock of the queue.
create table cortex.fair_turn (
  queue text not null,
  tenant_id uuid not null,
  served bigint not null,
  primary key (queue, tenant_id)
);

comment on table cortex.fair_turn is 'How often each tenant had its turn in a queue that shares fairly.';
comment on column cortex.fair_turn.queue is 'The queue.';
comment on column cortex.fair_turn.tenant_id is 'The tenant; zeros for the clock of the queue.';
comment on column cortex.fair_turn.served is 'The turns so far.';

-- While there is a row, waiting jobs are moved into or out of the lanes of their tenants, page by page; `after` is the last job that was moved.
create table cortex.lane_pass (
  id integer primary key check (id = 1),
  after uuid not null default '00000000-0000-0000-0000-000000000000',
  again boolean not null default false
);

comment on table cortex.lane_pass is 'One row while waiting jobs are moved into lanes of their tenants, or out of them.';
comment on column cortex.lane_pass.id is 'Always 1.';
comment on column cortex.lane_pass.after is 'The last job of the page that was moved.';
comment on column cortex.lane_pass.again is 'Another control was set meanwhile: begin anew afterwards.';

-- templates ---------------------------------------------------------------------------------------

create table cortex.job_template (
  id uuid primary key,
  tenant_id uuid not null,
  name text not null check (name <> ''),
  job_type text not null,
  params jsonb not null default '{}' check (jsonb_typeof(params) = 'object'),
  options jsonb not null default '{}' check (jsonb_typeof(options) = 'object'),
  version int not null default 1 check (version > 0),
  created_by text,
  changed_by text,
  created_at timestamptz not null default cortex.now(),
  updated_at timestamptz not null default cortex.now(),
  unique (tenant_id, name)
);

comment on table cortex.job_template is 'Stored job definitions. Jobs that were made from one keep what it said then.';
comment on column cortex.job_template.id is 'UUIDv7; what job.template_id refers to.';
comment on column cortex.job_template.tenant_id is 'Who owns it.';
comment on column cortex.job_template.name is 'Unique within the tenant.';
comment on column cortex.job_template.job_type is 'The agent of its jobs.';
comment on column cortex.job_template.params is 'Their payload; a caller may replace single keys.';
comment on column cortex.job_template.options is 'Other options of their submission, such as queue, priority and tags, by their names over HTTP.';
comment on column cortex.job_template.version is 'Counted up by every change.';
comment on column cortex.job_template.created_by is 'Who saved it first.';
comment on column cortex.job_template.changed_by is 'Who last changed what its jobs are. They stand behind those jobs.';
comment on column cortex.job_template.created_at is 'When it was first saved.';
comment on column cortex.job_template.updated_at is 'When it last changed.';

-- webhooks ----------------------------------------------------------------------------------------
-- Notified when a job ends, or is held because its code does not fit.
-- A delivery is a job of the internal queue, created in the transaction that ends the other job.

create table cortex.webhook_endpoint (
  id uuid primary key default cortex.uuid7(),
  tenant_id uuid not null references cortex.tenant (id),
  url text not null check (url <> ''),
  secret text not null check (secret <> ''),
  events jsonb not null check (jsonb_typeof(events) = 'array'),
  enabled boolean not null default true,
  description text,
  allow_private boolean not null default false,
  created_by text,
  created_at timestamptz not null default cortex.now(),
  disabled_at timestamptz,
  disabled_reason text,
  constraint disabled_at_exactly_when_disabled check (enabled = (disabled_at is null)),
  constraint disabled_reason_only_when_disabled check (disabled_reason is null or not enabled)
);
create index webhook_endpoint_enabled on cortex.webhook_endpoint (tenant_id) where enabled;

comment on table cortex.webhook_endpoint is 'Who is told, by a signed HTTP request or in a channel, when a job ends or is held.';
comment on column cortex.webhook_endpoint.id is 'UUIDv7.';
comment on column cortex.webhook_endpoint.tenant_id is 'Only jobs of this tenant are told of.';
comment on column cortex.webhook_endpoint.url is 'Where the message goes: an HTTP address, or operators in a channel, such as email:ops@example.com.';
comment on column cortex.webhook_endpoint.secret is 'What messages are signed with, as Standard Webhooks writes it. Secret.';
comment on column cortex.webhook_endpoint.events is 'Which events: job.completed, job.failed, job.cancelled, job.held, job.uncertain, approval.undecidable, job.*, approval.* or *.';
comment on column cortex.webhook_endpoint.enabled is 'Events are told only while this is true.';
comment on column cortex.webhook_endpoint.description is 'What it is for, in the words of whoever added it.';
comment on column cortex.webhook_endpoint.allow_private is 'It may lead to an address that is not on the public Internet.';
comment on column cortex.webhook_endpoint.created_by is 'Who added it.';
comment on column cortex.webhook_endpoint.created_at is 'When.';
comment on column cortex.webhook_endpoint.disabled_at is 'When it was disabled; set exactly then.';
comment on column cortex.webhook_endpoint.disabled_reason is 'Why.';

-- When each endpoint was last notified about a subject that many jobs share, so that it is not notified for each of them.
create table cortex.webhook_notice (
  endpoint_id uuid not null references cortex.webhook_endpoint (id) on delete cascade,
  subject text not null,
  event_id text not null,
  told_at timestamptz not null,
  primary key (endpoint_id, subject)
);

comment on table cortex.webhook_notice is 'What operators in a channel were told of last: others of the same subject are not told for a while.';
comment on column cortex.webhook_notice.endpoint_id is 'Who was told.';
comment on column cortex.webhook_notice.subject is 'The event and the agent.';
comment on column cortex.webhook_notice.event_id is 'Which event it was; it is told again until it has arrived.';
comment on column cortex.webhook_notice.told_at is 'When.';

-- Failed deliveries (webhooks, notifications) are retried after the time that was spent on attempts so far, at least five minutes, until a
-- week after the first was submitted.
create table cortex.failed_delivery (
  job_id uuid primary key,
  retry_at timestamptz not null,
  give_up_at timestamptz not null
);
create index failed_delivery_due on cortex.failed_delivery (retry_at);

comment on table cortex.failed_delivery is 'Deliveries that failed and are to be tried again. The row goes when that has happened.';
comment on column cortex.failed_delivery.job_id is 'The job that FAILED.';
comment on column cortex.failed_delivery.retry_at is 'When it is tried again, by a linked job.';
comment on column cortex.failed_delivery.give_up_at is 'After this it stays as it is: a week after the first of its chain was submitted.';

-- approvals ---------------------------------------------------------------------------------------
-- What people were asked and how they voted.
--
--   RUNNING ──▶ WAITING_FOR_APPROVAL     with a request; job.approval_token names it
--   the job leaves that state ──▶ its request closes with the outcome in the note of that change, and notified people are told the outcome
--   ... as RUNNING ──▶ an open run without a worker, and a queue entry: the claim that takes the entry takes over the run
--
-- So a request cannot be closed while its job waits, and a job cannot stop waiting and leave its request open.

create type cortex.approval_decision as enum ('approved', 'denied', 'expired');

create table cortex.approval_request (
  id uuid primary key,
  job_id uuid not null,
  run_id uuid not null,
  tenant_id uuid not null,
  gate_key text not null check (gate_key <> ''),
  token_hash text not null check (length(token_hash) = 64),
  requested_by_agent_id uuid not null references cortex.agent (id) on delete restrict,
  approver_user_account_id uuid references cortex.user_account (id) on delete set null,
  designated boolean not null,
  approvers jsonb not null,
  escalate_to jsonb not null,
  notification_channels jsonb not null default '[]' check (jsonb_typeof(notification_channels) = 'array'),
  action_summary text not null,
  action_details jsonb not null default '{}',
  digest text not null check (length(digest) = 64),
  quorum int not null default 1 check (quorum > 0),
  votes int not null default 0 check (votes >= 0),
  no_self_approval boolean not null default false,
  editable jsonb not null default 'false',
  on_expiry text not null default 'fail' check (on_expiry in ('fail', 'deny', 'approve', 'default')),
  default_value jsonb not null default 'null',
  on_denial text not null default 'fail' check (on_denial in ('fail', 'raise')),
  supersedes uuid,
  decision cortex.approval_decision,
  decided_by uuid references cortex.user_account (id) on delete set null,
  reason text,
  edited_details jsonb,
  used_at timestamptz,
  outcome text check (outcome in ('approved', 'denied', 'failed', 'defaulted', 'cancelled', 'superseded')),
  closed_at timestamptz,
  ttl_seconds double precision not null check (ttl_seconds > 0),
  remind_after_seconds double precision check (remind_after_seconds > 0),
  remind_at timestamptz,
  reminders int not null default 0 check (reminders >= 0),
  escalate_at timestamptz,
  escalated_at timestamptz,
  expires_at timestamptz not null,
  created_at timestamptz not null default cortex.now(),

  constraint chk_action_summary_not_empty check (length(trim(action_summary)) > 0),
  constraint uq_approval_token_hash unique (token_hash),
  constraint chk_decision_used_at check (
    (decision in ('approved', 'denied') and used_at is not null)
    or decision = 'expired'
    or (decision is null and used_at is null)),
  constraint closed_at_exactly_with_an_outcome check ((outcome is null) = (closed_at is null)),
  constraint a_decision_has_an_outcome check (decision is null or (outcome is not null and outcome not in ('cancelled', 'superseded'))),
  constraint only_people_edit check (edited_details is null or decision = 'approved')
);
create index idx_approval_request_job_id on cortex.approval_request (job_id, created_at desc);
create index idx_approval_request_expired on cortex.approval_request (expires_at) where outcome is null;
create index idx_approval_request_approver on cortex.approval_request (approver_user_account_id, created_at desc)
  where outcome is null;
create index idx_approval_request_tenant on cortex.approval_request (tenant_id, id);
create index idx_approval_request_open on cortex.approval_request (id desc) where outcome is null;
create index idx_approval_request_open_of_job on cortex.approval_request (job_id) where outcome is null;
create index idx_approval_request_open_to_all on cortex.approval_request (tenant_id, id desc)
  where outcome is null and not designated;
create index idx_approval_request_remind on cortex.approval_request (remind_at) where outcome is null and remind_at is not null;
create index idx_approval_request_escalate on cortex.approval_request (escalate_at)
  where outcome is null and escalate_at is not null;

comment on table cortex.approval_request is 'What people were asked, one row for each time, and how it ended.';
comment on column cortex.approval_request.id is 'UUIDv7.';
comment on column cortex.approval_request.job_id is 'The job that waits for it.';
comment on column cortex.approval_request.run_id is 'The run that asked.';
comment on column cortex.approval_request.tenant_id is 'Tenant of the job.';
comment on column cortex.approval_request.gate_key is 'Which gate of the handler asked.';
comment on column cortex.approval_request.token_hash is 'Hash of a token that is never sent; job.approval_token while the job waits for this.';
comment on column cortex.approval_request.requested_by_agent_id is 'The agent that asks.';
comment on column cortex.approval_request.approver_user_account_id is 'The one person who may decide; null when it is not one person.';
comment on column cortex.approval_request.designated is 'Only those named may decide; otherwise whoever may approve in the tenant.';
comment on column cortex.approval_request.approvers is 'Users and groups who may decide, by id.';
comment on column cortex.approval_request.escalate_to is 'Users and groups who may decide too, once it is escalated.';
comment on column cortex.approval_request.notification_channels is 'Messages that were sent: {channel_type, channel_user_id, notification_sent_at, message_id, …}.';
comment on column cortex.approval_request.action_summary is 'One line: what the agent wants to do.';
comment on column cortex.approval_request.action_details is 'Structured details of it, as they were shown.';
comment on column cortex.approval_request.digest is 'SHA-256 over tenant, job, gate, summary and details: what was shown.';
comment on column cortex.approval_request.quorum is 'How many must approve.';
comment on column cortex.approval_request.votes is 'How many have.';
comment on column cortex.approval_request.no_self_approval is 'Whoever submitted the job may not decide.';
comment on column cortex.approval_request.editable is 'What an approver may change of the details: false, true, a list of keys, or a JSON Schema.';
comment on column cortex.approval_request.on_expiry is 'When nobody decides in time: fail, deny, approve or default.';
comment on column cortex.approval_request.default_value is 'What the job goes on with when it expires, for default.';
comment on column cortex.approval_request.on_denial is 'When it is denied: fail the job, or raise in its handler.';
comment on column cortex.approval_request.supersedes is 'The earlier request for the same gate, when the code worded it otherwise and asked again.';
comment on column cortex.approval_request.decision is 'What people decided, or that they did not in time; null while open and when cancelled.';
comment on column cortex.approval_request.decided_by is 'Whose vote closed it; null unless people did.';
comment on column cortex.approval_request.reason is 'Why, in their words.';
comment on column cortex.approval_request.edited_details is 'The details as the approver changed them; null when they did not.';
comment on column cortex.approval_request.used_at is 'When people decided.';
comment on column cortex.approval_request.outcome is 'What it means for the job; null while open.';
comment on column cortex.approval_request.closed_at is 'When it closed, however it did.';
comment on column cortex.approval_request.ttl_seconds is 'How long people had.';
comment on column cortex.approval_request.remind_after_seconds is 'After how long they are reminded, each time.';
comment on column cortex.approval_request.remind_at is 'When they are reminded next.';
comment on column cortex.approval_request.reminders is 'How often they were.';
comment on column cortex.approval_request.escalate_at is 'When it is to be escalated.';
comment on column cortex.approval_request.escalated_at is 'When it was.';
comment on column cortex.approval_request.expires_at is 'From then on nobody can decide.';
comment on column cortex.approval_request.created_at is 'When it was asked.';

create table cortex.approval_vote (
  approval_request_id uuid not null references cortex.approval_request (id) on delete cascade,
  user_account_id uuid not null references cortex.user_account (id),
  decision text not null check (decision in ('approved', 'denied')),
  reason text,
  edited_details jsonb,
  door text not null check (door <> ''),
  created_at timestamptz not null default cortex.now(),
  primary key (approval_request_id, user_account_id)
);
create index approval_vote_of_user on cortex.approval_vote (user_account_id);

comment on table cortex.approval_vote is 'Who decided what; one row for each person. Never changed.';
comment on column cortex.approval_vote.approval_request_id is 'About which request.';
comment on column cortex.approval_vote.user_account_id is 'Who.';
comment on column cortex.approval_vote.decision is 'approved or denied.';
comment on column cortex.approval_vote.reason is 'Why, in their words.';
comment on column cortex.approval_vote.edited_details is 'The details as they changed them.';
comment on column cortex.approval_vote.door is 'From where: api, dashboard, cli, or a channel.';
comment on column cortex.approval_vote.created_at is 'When.';

create table cortex.approval_token (
  token_hash text primary key check (length(token_hash) = 64),
  approval_request_id uuid not null references cortex.approval_request (id) on delete cascade,
  user_account_id uuid not null references cortex.user_account (id) on delete cascade,
  channel_type text not null,
  channel_user_id text not null,
  serial int not null,
  created_at timestamptz not null default cortex.now(),
  replaced_at timestamptz
);
create index approval_token_of_user on cortex.approval_token (user_account_id);
create index approval_token_of_address on cortex.approval_token (approval_request_id, user_account_id, channel_type, channel_user_id);

comment on table cortex.approval_token is 'Tokens that were sent: each is the identity of one addressee for one request.';
comment on column cortex.approval_token.token_hash is 'SHA-256 of the token, in hexadecimal. The token itself is nowhere.';
comment on column cortex.approval_token.approval_request_id is 'What it decides.';
comment on column cortex.approval_token.user_account_id is 'Whose it is.';
comment on column cortex.approval_token.channel_type is 'By which service it was sent.';
comment on column cortex.approval_token.channel_user_id is 'To which address there.';
comment on column cortex.approval_token.serial is 'Counts the tokens of one address. When a message was delivered, those with a lower number are void.';
comment on column cortex.approval_token.replaced_at is 'When a message to the same address that was made later was delivered: this one is void. A revoked token is deleted.';
comment on column cortex.approval_token.created_at is 'When it was made.';

-- The inbox: users and groups that are named as approvers of open requests. Rows are deleted when the request closes.
create table cortex.approval_approver (
  approval_request_id uuid not null references cortex.approval_request (id) on delete cascade,
  user_account_id uuid references cortex.user_account (id) on delete cascade,
  user_group_id uuid references cortex.user_group (id) on delete cascade,
  escalated boolean not null default false,
  constraint a_user_or_a_group check ((user_account_id is null) <> (user_group_id is null))
);
create index approval_approver_of_request on cortex.approval_approver (approval_request_id);
create index approval_approver_of_user on cortex.approval_approver (user_account_id, approval_request_id desc)
  where user_account_id is not null;
create index approval_approver_of_group on cortex.approval_approver (user_group_id, approval_request_id desc)
  where user_group_id is not null;

comment on table cortex.approval_approver is 'Whom the open requests are put to by name. Rows go when their request closes.';
comment on column cortex.approval_approver.approval_request_id is 'Which request.';
comment on column cortex.approval_approver.user_account_id is 'A person, or';
comment on column cortex.approval_approver.user_group_id is 'a group.';
comment on column cortex.approval_approver.escalated is 'They were added when it was escalated.';

-- When each person was last notified or reminded of an open request, on any channel. Rows are deleted when the request closes.
create table cortex.approval_notice (
  approval_request_id uuid not null references cortex.approval_request (id) on delete cascade,
  user_account_id uuid not null references cortex.user_account (id) on delete cascade,
  notified_at timestamptz not null,
  untold boolean not null default false,
  primary key (approval_request_id, user_account_id)
);
create index approval_notice_of_user on cortex.approval_notice (user_account_id);

comment on table cortex.approval_notice is 'When each person was last asked about an open request, or reminded of it. Rows go when their request closes.';
comment on column cortex.approval_notice.approval_request_id is 'Which request.';
comment on column cortex.approval_notice.user_account_id is 'Who.';
comment on column cortex.approval_notice.notified_at is 'When. Their next reminder counts from then.';
comment on column cortex.approval_notice.untold is 'Of use within a transaction on SQLite only, which marks there whom it is about to tell.';

-- groups ------------------------------------------------------------------------------------------
-- Jobs that belong together.
--
--   a member ends ──▶ a job for the agent `cortex.group` ──▶ it reads all members and takes the next step
--
-- A sequential group releases one member at a time; the entries of the others are `held`, and no claim reads those.
-- Ending a member never waits for its group.

create table cortex.job_group (
  id uuid primary key,
  tenant_id uuid not null,
  name text check (name <> ''),
  group_key text check (group_key <> ''),
  request_hash text,
  mode text not null check (mode in ('parallel', 'sequential')),
  on_failure text not null check (on_failure in ('stop', 'continue', 'skip')),
  callback jsonb check (jsonb_typeof(callback) = 'object'),
  callback_job_id uuid,
  created_by text,
  created_at timestamptz not null default cortex.now(),
  finished_at timestamptz,
  stopping boolean not null default false,
  constraint called_back_only_when_finished check (callback_job_id is null or (callback is not null and finished_at is not null))
);
create unique index job_group_of_key on cortex.job_group (tenant_id, group_key) where group_key is not null;

comment on table cortex.job_group is 'Jobs that belong together. Where a group stands follows from its members, the jobs with its group_id.';
comment on column cortex.job_group.id is 'UUIDv7; what job.group_id refers to.';
comment on column cortex.job_group.tenant_id is 'Who owns it, and all its members.';
comment on column cortex.job_group.name is 'For people.';
comment on column cortex.job_group.group_key is 'Submitted again under the same key, it is this group; unique for the tenant.';
comment on column cortex.job_group.request_hash is 'SHA-256 of what was asked for under that key.';
comment on column cortex.job_group.mode is 'parallel, or sequential: one member after the other, in the order of their ids.';
comment on column cortex.job_group.on_failure is 'When a member fails for good: stop all others, continue, or skip those that have not begun.';
comment on column cortex.job_group.callback is 'The job to submit when no member is open any more.';
comment on column cortex.job_group.callback_job_id is 'That job, once it was submitted.';
comment on column cortex.job_group.created_by is 'Who submitted it.';
comment on column cortex.job_group.created_at is 'When.';
comment on column cortex.job_group.finished_at is 'When no member was open any more, for the first time.';
comment on column cortex.job_group.stopping is 'What a failure or an operator asked for has been done to the members.';

-- Members that failed permanently, until their group has handled it: until then no claim starts another member of the group.
-- One row for each member, so that ending a member waits for no lock.
create table cortex.group_failure (
  job_id uuid primary key,
  group_id uuid not null
);
create index group_failure_of_group on cortex.group_failure (group_id);

comment on table cortex.group_failure is 'Members that failed for good, until their group was looked at: meanwhile no claim begins another member.';
comment on column cortex.group_failure.job_id is 'The member.';
comment on column cortex.group_failure.group_id is 'Its group.';

-- grants ------------------------------------------------------------------------------------------

create table cortex.execution_grant (
  id uuid primary key default cortex.uuid7(),
  tenant_id uuid not null references cortex.tenant (id),
  user_account_id uuid references cortex.user_account (id),
  billing_account_id uuid not null references cortex.billing_account (id),
  scopes jsonb not null check (jsonb_typeof(scopes) = 'array' and jsonb_array_length(scopes) > 0),
  expires_at timestamptz,
  max_uses integer check (max_uses > 0),
  uses integer not null default 0 check (uses >= 0),
  revoked_at timestamptz,
  revoked_by text,
  revoke_reason text,
  created_by text,
  created_at timestamptz not null default cortex.now(),
  constraint uses_within_max check (max_uses is null or uses <= max_uses)
) with (fillfactor = 50);
create index execution_grant_of_user on cortex.execution_grant (user_account_id);
create index execution_grant_of_billing_account on cortex.execution_grant (billing_account_id);
-- Each schedule has its own grant, so there are many. Serves the pages of a tenant's grants.
create index execution_grant_of_tenant on cortex.execution_grant (tenant_id, id);

comment on table cortex.execution_grant is 'Under which scheduled work runs, instead of somebody''s session.';
comment on column cortex.execution_grant.id is 'UUIDv7.';
comment on column cortex.execution_grant.tenant_id is 'For whose work.';
comment on column cortex.execution_grant.user_account_id is 'Whose grant it is; null for the installation''s own.';
comment on column cortex.execution_grant.billing_account_id is 'Who is charged.';
comment on column cortex.execution_grant.scopes is 'What may be run: graph:execute:NAME, agent:run:NAME, with * at the end for all.';
comment on column cortex.execution_grant.expires_at is 'From then on it is good for nothing.';
comment on column cortex.execution_grant.max_uses is 'How many runs it is good for; null for any number.';
comment on column cortex.execution_grant.uses is 'How many runs were started under it.';
comment on column cortex.execution_grant.revoked_at is 'When it was taken back.';
comment on column cortex.execution_grant.revoked_by is 'By whom.';
comment on column cortex.execution_grant.revoke_reason is 'Why.';
comment on column cortex.execution_grant.created_by is 'Who made it.';
comment on column cortex.execution_grant.created_at is 'When.';

-- No foreign key to job: the request is kept longer than the job.
create table cortex.execution_request (
  id uuid primary key,
  tenant_id uuid not null references cortex.tenant (id),
  idempotency_key text not null check (idempotency_key <> ''),
  request_hash text not null check (length(request_hash) = 64),
  graph_id text not null,
  grant_id uuid not null references cortex.execution_grant (id),
  billing_account_id uuid not null references cortex.billing_account (id),
  virtual_key_id text not null,
  run_id uuid not null unique,
  trace_id text not null,
  service_name text,
  outcome cortex.job_status check (outcome in ('COMPLETED', 'FAILED', 'CANCELLED')),
  outcome_message text,
  created_at timestamptz not null default cortex.now(),
  finished_at timestamptz,
  unique (tenant_id, idempotency_key),
  constraint finished_at_exactly_with_outcome check ((outcome is null) = (finished_at is null))
);
create index execution_request_of_grant on cortex.execution_request (grant_id);

comment on table cortex.execution_request is 'A run that was asked for under a grant: the memory of idempotency keys, longer than any job.';
comment on column cortex.execution_request.id is 'UUIDv7.';
comment on column cortex.execution_request.tenant_id is 'For whom.';
comment on column cortex.execution_request.idempotency_key is 'The caller''s key: the same one is the same request.';
comment on column cortex.execution_request.request_hash is 'SHA-256 of the request in normal form.';
comment on column cortex.execution_request.graph_id is 'What was to run.';
comment on column cortex.execution_request.grant_id is 'Under which grant.';
comment on column cortex.execution_request.billing_account_id is 'Who is charged.';
comment on column cortex.execution_request.virtual_key_id is 'To which key.';
comment on column cortex.execution_request.run_id is 'The id of the job that it became.';
comment on column cortex.execution_request.trace_id is 'The W3C trace that it belongs to.';
comment on column cortex.execution_request.service_name is 'Who asked, in its own words.';
comment on column cortex.execution_request.outcome is 'How it ended, retries included.';
comment on column cortex.execution_request.outcome_message is 'Why it failed.';
comment on column cortex.execution_request.created_at is 'When it was asked for.';
comment on column cortex.execution_request.finished_at is 'When it ended.';

create table cortex.charge_receipt (
  run_id uuid not null,
  attempt integer not null,
  unit text not null check (unit in ('cents', 'prompt_tokens', 'completion_tokens')),
  quantity bigint not null check (quantity > 0),
  request_id uuid not null references cortex.execution_request (id) on delete cascade,
  billing_account_id uuid not null references cortex.billing_account (id),
  grant_id uuid not null references cortex.execution_grant (id),
  virtual_key_id text not null,
  created_at timestamptz not null default cortex.now(),
  updated_at timestamptz not null default cortex.now(),
  primary key (run_id, attempt, unit)
);
create index charge_receipt_of_account on cortex.charge_receipt (billing_account_id, unit);
create index charge_receipt_of_request on cortex.charge_receipt (request_id);

comment on table cortex.charge_receipt is 'What one attempt of a run has used of one unit.';
comment on column cortex.charge_receipt.run_id is 'The job that used it.';
comment on column cortex.charge_receipt.attempt is 'In which attempt.';
comment on column cortex.charge_receipt.unit is 'cents, prompt_tokens or completion_tokens.';
comment on column cortex.charge_receipt.quantity is 'How much.';
comment on column cortex.charge_receipt.request_id is 'For which request.';
comment on column cortex.charge_receipt.billing_account_id is 'Who is charged.';
comment on column cortex.charge_receipt.grant_id is 'Under which grant.';
comment on column cortex.charge_receipt.virtual_key_id is 'To which key.';
comment on column cortex.charge_receipt.created_at is 'When it was first used.';
comment on column cortex.charge_receipt.updated_at is 'When it last grew.';

-- graphs ------------------------------------------------------------------------------------------
-- The state of graphs: what an executor such as LangGraph stores for a thread, so that any worker can resume it.
--
--   the thread of a job has the job's id, and is deleted with it
--   a checkpoint ──▶ one value for each of its channels, by version; all checkpoints with that version share it
--   a checkpoint ──▶ what tasks wrote after it, until the next one
--
-- Texts that are compared have the order of their bytes: the newest checkpoint is the one with the greatest id.

create table cortex.graph_checkpoint (
  thread_id text collate "C" not null check (thread_id <> ''),
  namespace text collate "C" not null,
  checkpoint_id text collate "C" not null check (checkpoint_id <> ''),
  parent_id text collate "C",
  run_id text collate "C",
  kind text not null,
  content bytea not null,
  channels jsonb not null check (jsonb_typeof(channels) = 'object'),
  metadata jsonb not null check (jsonb_typeof(metadata) = 'object'),
  created_at timestamptz not null default cortex.now(),
  primary key (thread_id, namespace, checkpoint_id)
);
create index graph_checkpoint_of_run on cortex.graph_checkpoint (run_id) where run_id is not null;

comment on table cortex.graph_checkpoint is 'The state of a graph after a step. Those of a job''s own thread go with the job.';
comment on column cortex.graph_checkpoint.thread_id is 'The thread that the graph runs in: the id of its job, unless a program chose another.';
comment on column cortex.graph_checkpoint.namespace is 'Which graph: empty for the outermost, else the path to a graph inside of it.';
comment on column cortex.graph_checkpoint.checkpoint_id is 'The executor''s own id; later ones are greater.';
comment on column cortex.graph_checkpoint.parent_id is 'The checkpoint that it follows.';
comment on column cortex.graph_checkpoint.run_id is 'The run that made it, as its metadata says.';
comment on column cortex.graph_checkpoint.kind is 'How the content is written.';
comment on column cortex.graph_checkpoint.content is 'The checkpoint without the values of its channels.';
comment on column cortex.graph_checkpoint.channels is 'The version of each channel.';
comment on column cortex.graph_checkpoint.metadata is 'What the executor says about it.';
comment on column cortex.graph_checkpoint.created_at is 'When it was saved.';

create table cortex.graph_value (
  thread_id text collate "C" not null check (thread_id <> ''),
  namespace text collate "C" not null,
  channel text collate "C" not null,
  version text collate "C" not null,
  kind text not null,
  content bytea not null,
  primary key (thread_id, namespace, channel, version)
);

comment on table cortex.graph_value is 'Values of the channels of graphs. A version of a channel never changes.';
comment on column cortex.graph_value.thread_id is 'Of which thread.';
comment on column cortex.graph_value.namespace is 'Of which graph in it.';
comment on column cortex.graph_value.channel is 'Of which channel.';
comment on column cortex.graph_value.version is 'Of which version of it.';
comment on column cortex.graph_value.kind is 'How the content is written.';
comment on column cortex.graph_value.content is 'The value.';

create table cortex.graph_write (
  thread_id text collate "C" not null check (thread_id <> ''),
  namespace text collate "C" not null,
  checkpoint_id text collate "C" not null,
  task_id text collate "C" not null,
  place integer not null,
  channel text collate "C" not null,
  task_path text collate "C" not null,
  kind text not null,
  content bytea not null,
  primary key (thread_id, namespace, checkpoint_id, task_id, place)
);

comment on table cortex.graph_write is 'What tasks of a graph have written since a checkpoint: it need not be done again.';
comment on column cortex.graph_write.thread_id is 'Of which thread.';
comment on column cortex.graph_write.namespace is 'Of which graph in it.';
comment on column cortex.graph_write.checkpoint_id is 'After which checkpoint.';
comment on column cortex.graph_write.task_id is 'Which task wrote it.';
comment on column cortex.graph_write.place is 'Its place among the writes of the task; below 0 for errors, interrupts and answers to them.';
comment on column cortex.graph_write.channel is 'To which channel.';
comment on column cortex.graph_write.task_path is 'The path of the task, by which writes are ordered.';
comment on column cortex.graph_write.kind is 'How the content is written.';
comment on column cortex.graph_write.content is 'What was written.';

-- schedules ---------------------------------------------------------------------------------------
--   who writes what
--     schedule, schedule_run     the slot runner, the reconciler and operators; never the execution service
--     execution_request          the execution service; its outcome by a trigger of job
--     charge_receipt             a trigger of job, for jobs that run under a grant

create table cortex.schedule (
  id uuid primary key default cortex.uuid7(),
  tenant_id uuid not null references cortex.tenant (id),
  name text not null check (name <> ''),
  owner_id uuid references cortex.user_account (id),
  grant_id uuid not null references cortex.execution_grant (id),
  graph_id text not null check (graph_id <> ''),
  input jsonb not null check (jsonb_typeof(input) = 'object'),
  cron text not null,
  timezone text not null,
  missed text not null check (missed in ('skip', 'latest', 'all')),
  most_missed integer not null check (most_missed > 0),
  overlap text not null check (overlap in ('forbid', 'allow', 'replace')),
  jitter_seconds double precision not null check (jitter_seconds >= 0),
  starts_at timestamptz,
  ends_at timestamptz,
  pause_after_failures integer check (pause_after_failures > 0),
  source text not null check (source in ('operator', 'code')),
  enabled boolean not null,
  paused_by text,
  paused_at timestamptz,
  pause_reason text,
  failures integer not null default 0 check (failures >= 0),
  next_run_at timestamptz,
  last_run_at timestamptz,
  slot_job_id uuid,
  zone_data text not null,
  created_by text,
  changed_by text,
  removed_at timestamptz,
  removed_by text,
  created_at timestamptz not null default cortex.now(),
  updated_at timestamptz not null default cortex.now(),
  constraint paused_at_exactly_when_disabled check (enabled = (paused_at is null)),
  constraint next_run_at_only_when_enabled check (enabled or next_run_at is null),
  constraint removed_only_when_disabled check (removed_at is null or not enabled)
);
-- A name can be used again when its schedule was removed; the row stays, for its slots.
create unique index schedule_name on cortex.schedule (tenant_id, name) where removed_at is null;
create index schedule_of_grant on cortex.schedule (grant_id);
create index schedule_of_owner on cortex.schedule (owner_id);
create index schedule_next_run on cortex.schedule (next_run_at) where enabled;

comment on table cortex.schedule is 'A cron rule, and what runs by it.';
comment on column cortex.schedule.id is 'UUIDv7.';
comment on column cortex.schedule.tenant_id is 'Whose schedule it is.';
comment on column cortex.schedule.name is 'Its name, unique for the tenant.';
comment on column cortex.schedule.owner_id is 'The user who made it, where there is one.';
comment on column cortex.schedule.grant_id is 'Under which its runs are started.';
comment on column cortex.schedule.graph_id is 'What runs: agent:NAME, template:NAME or the id of a graph.';
comment on column cortex.schedule.input is 'Its input; for a template, what replaces keys of its params.';
comment on column cortex.schedule.cron is 'Five fields: minute hour day month weekday.';
comment on column cortex.schedule.timezone is 'On whose clocks, by its IANA name.';
comment on column cortex.schedule.missed is 'What becomes of slots that nobody started in time: skip, latest or all.';
comment on column cortex.schedule.most_missed is 'Under all: no more than so many.';
comment on column cortex.schedule.overlap is 'What becomes of a slot while an earlier one runs: forbid, allow or replace.';
comment on column cortex.schedule.jitter_seconds is 'A slot begins up to so much later, always the same.';
comment on column cortex.schedule.starts_at is 'No slot before this.';
comment on column cortex.schedule.ends_at is 'No slot from this on.';
comment on column cortex.schedule.pause_after_failures is 'It pauses after so many failures in a row.';
comment on column cortex.schedule.source is 'operator: added by hand; code: declared beside an agent.';
comment on column cortex.schedule.enabled is 'Whether it has slots at all.';
comment on column cortex.schedule.paused_by is 'Who paused it.';
comment on column cortex.schedule.paused_at is 'When; set exactly while it is not enabled.';
comment on column cortex.schedule.pause_reason is 'Why.';
comment on column cortex.schedule.failures is 'How many slots have failed in a row.';
comment on column cortex.schedule.next_run_at is 'The slot that its chain of jobs stands at.';
comment on column cortex.schedule.last_run_at is 'The last slot that began.';
comment on column cortex.schedule.slot_job_id is 'The job of that slot.';
comment on column cortex.schedule.zone_data is 'The release of the time-zone data by which the slot was reckoned.';
comment on column cortex.schedule.created_by is 'Who made it.';
comment on column cortex.schedule.changed_by is 'Who last changed what it runs: they stand behind its runs.';
comment on column cortex.schedule.removed_at is 'When it was removed. Its row and its slots stay.';
comment on column cortex.schedule.removed_by is 'By whom.';
comment on column cortex.schedule.created_at is 'When.';
comment on column cortex.schedule.updated_at is 'Its last change.';

create table cortex.schedule_run (
  id uuid primary key,
  schedule_id uuid not null references cortex.schedule (id),
  scheduled_for timestamptz not null,
  local_time text not null,
  timezone text not null,
  origin text not null check (origin in ('cron', 'manual', 'backfill')),
  status text not null default 'pending' check (status in ('pending', 'running', 'success', 'error', 'skipped')),
  reason text,
  error_code text,
  error_message text,
  run_id uuid,
  trace_id text,
  job_id uuid,
  replaced_by uuid,
  begin_by timestamptz,
  requested_by text,
  started_at timestamptz,
  completed_at timestamptz,
  created_at timestamptz not null default cortex.now(),
  unique (schedule_id, scheduled_for),
  constraint completed_at_exactly_when_ended check ((status in ('success', 'error', 'skipped')) = (completed_at is not null)),
  constraint started_at_only_when_it_ran check (started_at is null or status in ('running', 'success', 'error')),
  constraint error_code_exactly_in_error check ((status = 'error') = (error_code is not null)),
  constraint reason_exactly_when_skipped check ((status = 'skipped') = (reason is not null))
);
create index schedule_run_open on cortex.schedule_run (schedule_id) where status = 'pending' or status = 'running';
create index schedule_run_ended on cortex.schedule_run (completed_at) where completed_at is not null;
create index schedule_run_of_run on cortex.schedule_run (run_id) where run_id is not null;

comment on table cortex.schedule_run is 'A slot: one firing of a schedule, once for each instant.';
comment on column cortex.schedule_run.id is 'Derived from the schedule and the instant.';
comment on column cortex.schedule_run.schedule_id is 'Of which schedule.';
comment on column cortex.schedule_run.scheduled_for is 'For which instant.';
comment on column cortex.schedule_run.local_time is 'What the clocks of the schedule''s zone showed.';
comment on column cortex.schedule_run.timezone is 'That zone.';
comment on column cortex.schedule_run.origin is 'cron, manual or backfill.';
comment on column cortex.schedule_run.status is 'pending, running, then success or error; or skipped.';
comment on column cortex.schedule_run.reason is 'Why it was skipped: missed, overlap, gate_closed or paused.';
comment on column cortex.schedule_run.error_code is 'Why it failed, in one word.';
comment on column cortex.schedule_run.error_message is 'Why it failed, for people.';
comment on column cortex.schedule_run.run_id is 'The run that it started: the id of a job, once the service has answered.';
comment on column cortex.schedule_run.trace_id is 'The W3C trace of the slot and its run.';
comment on column cortex.schedule_run.job_id is 'The job that looks after the slot.';
comment on column cortex.schedule_run.replaced_by is 'The slot that took its place.';
comment on column cortex.schedule_run.begin_by is 'Of a slot that was due when its schedule was changed: it is missed if it has not begun by then.';
comment on column cortex.schedule_run.requested_by is 'Who triggered it, or asked for it afterwards: they stand behind its run.';
comment on column cortex.schedule_run.started_at is 'When it began.';
comment on column cortex.schedule_run.completed_at is 'When it ended.';
comment on column cortex.schedule_run.created_at is 'When it was written down.';

-- When the schedules were last reconciled, so that only one of many workers does it. One row.
create table cortex.schedule_reconciler (
  id integer primary key check (id = 1),
  reconciled_at timestamptz not null
);
insert into cortex.schedule_reconciler (id, reconciled_at) values (1, 'epoch');

comment on table cortex.schedule_reconciler is 'One row: when the schedules were last looked through.';
comment on column cortex.schedule_reconciler.id is 'Always 1.';
comment on column cortex.schedule_reconciler.reconciled_at is 'When that was.';

-- retention ---------------------------------------------------------------------------------------

create table cortex.retention_rule (
  id uuid primary key,
  tenant_id uuid,
  job_type text check (job_type <> ''),
  status cortex.job_status check (status in ('COMPLETED', 'FAILED', 'CANCELLED')),
  keep_seconds bigint not null check (keep_seconds >= 0),
  created_by text,
  created_at timestamptz not null default cortex.now(),
  record text not null default 'job'
    check (record in ('job', 'worker', 'direct_reservation', 'schedule_run', 'execution_request', 'audit_log')),
  constraint only_rules_about_jobs_say_which
    check (record = 'job' or (tenant_id is null and job_type is null and status is null))
);
-- null equals nothing, so values that cannot occur replace it: a tenant of zeros, an empty name, a state that has not ended.
create unique index retention_rule_one_of_each on cortex.retention_rule (
  coalesce(tenant_id, '00000000-0000-0000-0000-000000000000'), coalesce(job_type, ''), coalesce(status, 'PENDING'), record);

comment on table cortex.retention_rule is 'How long finished jobs and other records are kept: for jobs the most specific rule holds; without one, for ever.';
comment on column cortex.retention_rule.id is 'UUIDv7.';
comment on column cortex.retention_rule.tenant_id is 'For jobs of this tenant; null for all.';
comment on column cortex.retention_rule.job_type is 'For jobs of this agent; null for all.';
comment on column cortex.retention_rule.status is 'For jobs that ended so; null for all that ended.';
comment on column cortex.retention_rule.keep_seconds is 'How long after their end.';
comment on column cortex.retention_rule.record is 'What it is about, by its table.';
comment on column cortex.retention_rule.created_by is 'Who made the rule.';
comment on column cortex.retention_rule.created_at is 'When.';

-- workers -----------------------------------------------------------------------------------------
-- An operator may ask a worker to drain: to finish its jobs, claim no more and stop. The worker reads the request at its next heartbeat.

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
  has_room boolean not null default false,
  drain_asked_at timestamptz,
  drain_asked_by text,
  drain_reason text
);
create index worker_live on cortex.worker (lease_until) where status = 'LIVE';
create index worker_lost on cortex.worker (id) where status = 'LOST' and ended_at is null;

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
comment on column cortex.worker.drain_asked_at is
  'When somebody asked it to finish what it has and to take nothing more. STOPPED with this set: it was drained.';
comment on column cortex.worker.drain_asked_by is 'Who asked for that first.';
comment on column cortex.worker.drain_reason is 'Why, in their words.';

-- Heartbeats of workers whose row another transaction has locked. An insert waits for no lock.
create table cortex.worker_beat (
  worker_id uuid not null,
  lease_until timestamptz not null
);
create index worker_beat_of_worker on cortex.worker_beat (worker_id);

comment on table cortex.worker_beat is 'Heartbeats of workers whose row another transaction has locked.';
comment on column cortex.worker_beat.worker_id is 'Whose.';
comment on column cortex.worker_beat.lease_until is 'Until then it counts as alive.';

-- HTTP --------------------------------------------------------------------------------------------
-- What all servers of one database share: rate limits, and stored responses by idempotency key.

create table cortex.rate_limit (
  bucket text primary key check (bucket <> ''),
  hits bigint not null check (hits >= 0),
  window_until timestamptz not null
);
create index rate_limit_expiry on cortex.rate_limit (window_until);

comment on table cortex.rate_limit is 'How often something was tried, in windows of time.';
comment on column cortex.rate_limit.bucket is 'What is counted, such as sign-ins of one name.';
comment on column cortex.rate_limit.hits is 'How often in this window.';
comment on column cortex.rate_limit.window_until is 'When counting begins anew.';

create table cortex.http_request (
  tenant_id uuid not null references cortex.tenant (id),
  caller text not null,
  key text not null check (length(key) between 1 and 255),
  request_hash text not null check (length(request_hash) = 64),
  seed uuid not null,
  status integer,
  body text,
  created_at timestamptz not null default cortex.now(),
  under_way_until timestamptz not null,
  expires_at timestamptz not null,
  primary key (tenant_id, caller, key),
  constraint answered_as_a_whole check ((status is null) = (body is null))
);
create index http_request_expiry on cortex.http_request (expires_at);

comment on table cortex.http_request is 'Requests that came with an Idempotency-Key, and what was answered.';
comment on column cortex.http_request.tenant_id is 'The tenant that it was about.';
comment on column cortex.http_request.caller is 'Who asked.';
comment on column cortex.http_request.key is 'The Idempotency-Key.';
comment on column cortex.http_request.request_hash is 'SHA-256 of method, path and body: the same key with another is refused.';
comment on column cortex.http_request.seed is 'What ids are made from, so that doing it again makes the same ones.';
comment on column cortex.http_request.status is 'What was answered; null while nothing was.';
comment on column cortex.http_request.body is 'The answer, without secrets.';
comment on column cortex.http_request.created_at is 'When it first came.';
comment on column cortex.http_request.under_way_until is 'Until then whoever began it is waited for.';
comment on column cortex.http_request.expires_at is 'Until when the answer is kept.';

-- whose a job is ----------------------------------------------------------------------------------
-- Who submitted a job: those who must not decide about it where a gate excludes self-approval.
--
--   by name       as a program gave it, "user:NAME" of whoever signed in or used their API key, "cli:NAME" of a login
--   by key        "key:PREFIX": the owner of the key, and who created it
--   by session    the user of the conversation that it came from
--   by grant      the owner of the grant that it runs under, "grant:ID", also when it is a fork of that work, and who requested it
--   submitters    the same of others: its parent's, the editor and trigger of its schedule, whoever ran it again
--
-- A service account stands for the admin who owns it.

-- The id of `KIND:ID`; null for any other text. Returns a uuid, so that the index on the id is used; ids cast to text would need a full scan.
create function cortex.id_in_signature(_signature text, _kind text) returns uuid language sql immutable as $$
  select case
    when _signature ~ ('^' || _kind || ':[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$') then right(_signature, 36)::uuid
  end;
$$;

create view cortex.job_submitter as
select j.id as job_id, coalesce(u.owner_id, u.id) as user_account_id
from cortex.job j
join cortex.user_account u on u.name in (
  j.created_by,
  case
    when j.created_by like 'user:%' then substr(j.created_by, 6)
    when j.created_by like 'cli:%' then substr(j.created_by, 5)
  end)
union all
select j.id, coalesce(u.owner_id, u.id)
from cortex.job j
join cortex.api_key k on j.created_by like 'key:%' and k.prefix = substr(j.created_by, 5)
join cortex.user_account u on u.id = k.user_account_id
union all
select j.id, coalesce(u.owner_id, u.id)
from cortex.job j
join cortex.api_key k on j.created_by like 'key:%' and k.prefix = substr(j.created_by, 5)
join cortex.user_account u on u.name in (
  k.created_by,
  case
    when k.created_by like 'user:%' then substr(k.created_by, 6)
    when k.created_by like 'cli:%' then substr(k.created_by, 5)
  end)
union all
select j.id as job_id, coalesce(u.owner_id, u.id) as user_account_id
from cortex.job j
cross join lateral jsonb_array_elements_text(j.submitters) e
join cortex.user_account u on u.name in (
  e.value,
  case
    when e.value like 'user:%' then substr(e.value, 6)
    when e.value like 'cli:%' then substr(e.value, 5)
  end)
union all
select j.id, coalesce(u.owner_id, u.id)
from cortex.job j
cross join lateral jsonb_array_elements_text(j.submitters) e
join cortex.api_key k on e.value like 'key:%' and k.prefix = substr(e.value, 5)
join cortex.user_account u on u.id = k.user_account_id
union all
select j.id, coalesce(u.owner_id, u.id)
from cortex.job j
cross join lateral jsonb_array_elements_text(j.submitters) e
join cortex.api_key k on e.value like 'key:%' and k.prefix = substr(e.value, 5)
join cortex.user_account u on u.name in (
  k.created_by,
  case
    when k.created_by like 'user:%' then substr(k.created_by, 6)
    when k.created_by like 'cli:%' then substr(k.created_by, 5)
  end)
union all
select j.id, s.user_account_id
from cortex.job j
join cortex.session s on s.id = j.session_id
union all
select j.id, s.user_account_id
from cortex.job j
cross join lateral jsonb_array_elements_text(j.submitters) e
join cortex.session s on s.id = cortex.id_in_signature(e.value, 'session')
union all
select j.id, coalesce(u.owner_id, u.id)
from cortex.job j
join cortex.execution_request r on r.id = j.request_id
join cortex.execution_grant g on g.id = r.grant_id
join cortex.user_account u on u.id = g.user_account_id
union all
select j.id, coalesce(u.owner_id, u.id)
from cortex.job j
join cortex.execution_grant g on g.id = cortex.id_in_signature(j.created_by, 'grant')
join cortex.user_account u on u.id = g.user_account_id
union all
select j.id, coalesce(u.owner_id, u.id)
from cortex.job j
cross join lateral jsonb_array_elements_text(j.submitters) e
join cortex.execution_grant g on g.id = cortex.id_in_signature(e.value, 'grant')
join cortex.user_account u on u.id = g.user_account_id
union all
select j.id, coalesce(u.owner_id, u.id)
from cortex.job j
join cortex.execution_request r on r.id = j.request_id and r.service_name like 'user:%'
join cortex.user_account u on u.name = substr(r.service_name, 6);
comment on view cortex.job_submitter is 'Who stands behind a job: who submitted it, whose session it came out of, or who started it under a grant.';

-- what the database refuses: jobs -----------------------------------------------------------------

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

-- Rules between fields. Check constraints would run for every checkpoint, which changes none of these fields, and make a single agent
-- about a tenth slower.
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

-- The plane's own statements always increase the revision; a statement that does not is raw SQL, and is completed here.
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

-- What a job was submitted with, and how it ended, cannot be rewritten. With column lists, so that the plane's own statements, which set
-- none of the first, run no trigger; after the update for the rest, so that no row is locked for it.
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

-- Only a waiting job has a place in the queue that can be changed.
create function cortex.refuse_reordering() returns trigger language plpgsql as $$
begin
  raise exception 'Job % is %; only a job that waits can change its priority or position.', old.id, old.status
    using errcode = 'check_violation';
end $$;
create trigger job_order_fixed before update of priority, position on cortex.job
  for each row when (
    (new.priority <> old.priority or new.position <> old.position) and old.status <> 'PENDING' and old.status <> 'RETRY')
  execute function cortex.refuse_reordering();

create trigger job_no_truncate before truncate on cortex.job execute function cortex.refuse_change();

-- what the database refuses: runs, history and blobs ----------------------------------------------

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

create function cortex.refuse_closed_run() returns trigger language plpgsql as $$
begin
  raise exception 'Run % is closed as %; a closed run never changes.', old.id, old.status using errcode = 'check_violation';
end $$;
-- After the update: a trigger before it makes PostgreSQL lock each row first, and write that lock.
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

create trigger run_params before update of params_snapshot on cortex.job_run
  for each row when (new.params_snapshot is distinct from old.params_snapshot)
  execute function cortex.refuse_change();

-- Only the database writes history, together with the change.
create function cortex.refuse_told_history() returns trigger language plpgsql as $$
begin
  raise exception 'Rows of job_history are written by the database only.' using errcode = 'check_violation';
end $$;
create trigger history_no_insert before insert on cortex.job_history
  for each row when (pg_trigger_depth() = 0)
  execute function cortex.refuse_told_history();

-- Except for erasure: the actor is replaced by a pseudonym, and metadata is removed.
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

create trigger blob_no_update before update on cortex.job_blob for each row execute function cortex.refuse_change();
create trigger blob_no_delete before delete on cortex.job_blob
  for each row execute function cortex.refuse_while_job_exists();
create trigger blob_no_truncate before truncate on cortex.job_blob execute function cortex.refuse_change();

-- what the database refuses: the audit log --------------------------------------------------------

-- Except for erasure: texts may be removed and the actor replaced by a pseudonym; digests of the removed texts stay (docs/decisions/0040).
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

create function cortex.refuse_unless_pruned() returns trigger language plpgsql as $$
begin
  if exists (select 1 from cortex.audit_pruned where last_seq >= old.seq) then
    return old;
  end if;
  raise exception 'Rows of % are never changed or deleted.', tg_table_name using errcode = 'check_violation';
end $$;
create trigger audit_no_delete before delete on cortex.audit_log
  for each row execute function cortex.refuse_unless_pruned();

create function cortex.take_transaction_id() returns trigger language plpgsql as $$
begin
  perform pg_current_xact_id();
  return null;
end $$;
create trigger audit_takes_transaction_id before insert on cortex.audit_log
  for each statement execute function cortex.take_transaction_id();

create trigger seal_no_update before update or delete on cortex.audit_seal
  for each row execute function cortex.refuse_change();
create trigger seal_no_truncate before truncate on cortex.audit_seal execute function cortex.refuse_change();

create function cortex.refuse_mark() returns trigger language plpgsql
  set jit = off set enable_seqscan = off
as $$
begin
  if tg_op = 'UPDATE' and new.id = 1 and new.seal > old.seal and new.pruned_at <= cortex.now()
    and exists (
      select 1 from cortex.audit_seal s join cortex.retention_rule r on r.record = 'audit_log'
      where s.number = new.seal and s.digest = new.digest and s.last_seq = new.last_seq
        and s.sealed_at + r.keep_seconds * interval '1 second' <= new.pruned_at)
    and exists (
      select 1 from cortex.audit_log
      where object_id = new.seal || ':' || new.digest and action = 'AUDIT_LOG_PRUNED') then
    return new;
  end if;
  raise exception 'The mark in audit_pruned moves only to a seal that a rule no longer keeps, and when that is recorded.'
    using errcode = 'check_violation';
end $$;
create trigger audit_pruned_moves before insert or update or delete on cortex.audit_pruned
  for each row execute function cortex.refuse_mark();
create trigger audit_pruned_no_truncate before truncate on cortex.audit_pruned execute function cortex.refuse_change();

-- what the database refuses: approvals ------------------------------------------------------------

create function cortex.refuse_loose_approval() returns trigger language plpgsql as $$
begin
  if new.outcome is null and exists (select 1 from cortex.job where id = new.job_id and approval_token = new.token_hash) then
    return new;
  end if;
  raise exception 'An approval opens only with its job: set job.status to WAITING_FOR_APPROVAL and job.approval_token to its hash.'
    using errcode = 'check_violation';
end $$;
create trigger approval_no_loose_insert before insert on cortex.approval_request
  for each row execute function cortex.refuse_loose_approval();

create function cortex.refuse_other_question() returns trigger language plpgsql as $$
begin
  raise exception 'What approval % asks never changes.', old.id using errcode = 'check_violation';
end $$;
create trigger approval_as_shown before update on cortex.approval_request
  for each row when (
    (new.id, new.job_id, new.run_id, new.tenant_id, new.gate_key, new.token_hash, new.requested_by_agent_id, new.designated,
     new.approvers, new.escalate_to, new.action_summary, new.action_details, new.digest, new.quorum, new.no_self_approval,
     new.editable, new.on_expiry, new.default_value, new.on_denial, new.supersedes, new.ttl_seconds, new.remind_after_seconds,
     new.expires_at, new.created_at)
    is distinct from
    (old.id, old.job_id, old.run_id, old.tenant_id, old.gate_key, old.token_hash, old.requested_by_agent_id, old.designated,
     old.approvers, old.escalate_to, old.action_summary, old.action_details, old.digest, old.quorum, old.no_self_approval,
     old.editable, old.on_expiry, old.default_value, old.on_denial, old.supersedes, old.ttl_seconds, old.remind_after_seconds,
     old.expires_at, old.created_at))
  execute function cortex.refuse_other_question();

create function cortex.refuse_deciding_again() returns trigger language plpgsql as $$
begin
  raise exception 'Approval % is closed as %; that is final.', old.id, old.outcome using errcode = 'check_violation';
end $$;
create trigger approval_closed_for_good before update on cortex.approval_request
  for each row when (
    old.outcome is not null and
    (new.decision, new.decided_by, new.reason, new.edited_details, new.used_at, new.outcome, new.closed_at, new.votes,
     new.remind_at, new.reminders, new.escalate_at, new.escalated_at)
    is distinct from
    (old.decision, old.decided_by, old.reason, old.edited_details, old.used_at, old.outcome, old.closed_at, old.votes,
     old.remind_at, old.reminders, old.escalate_at, old.escalated_at))
  execute function cortex.refuse_deciding_again();

create function cortex.refuse_deciding_by_hand() returns trigger language plpgsql as $$
begin
  if exists (select 1 from cortex.job where id = old.job_id and approval_token = old.token_hash) then
    raise exception 'Approval % closes only with its job: decide it, or cancel the job.', old.id using errcode = 'check_violation';
  end if;
  return new;
end $$;
create trigger approval_closes_with_job before update of outcome on cortex.approval_request
  for each row when (old.outcome is null and new.outcome is not null)
  execute function cortex.refuse_deciding_by_hand();

create trigger approval_no_delete before delete on cortex.approval_request
  for each row execute function cortex.refuse_while_job_exists();
create trigger approval_no_truncate before truncate on cortex.approval_request execute function cortex.refuse_change();

create function cortex.refuse_late_vote() returns trigger language plpgsql as $$
begin
  if exists (select 1 from cortex.approval_request where id = new.approval_request_id and outcome is null) then
    return new;
  end if;
  raise exception 'There is no open approval %.', new.approval_request_id using errcode = 'check_violation';
end $$;
create trigger vote_in_time before insert on cortex.approval_vote
  for each row execute function cortex.refuse_late_vote();
create trigger vote_no_update before update on cortex.approval_vote for each row execute function cortex.refuse_change();

create function cortex.refuse_unvoting() returns trigger language plpgsql as $$
begin
  if exists (select 1 from cortex.approval_request where id = old.approval_request_id) then
    raise exception 'Votes go only with their whole approval.' using errcode = 'check_violation';
  end if;
  return old;
end $$;
create trigger vote_no_delete before delete on cortex.approval_vote
  for each row execute function cortex.refuse_unvoting();
create trigger vote_no_truncate before truncate on cortex.approval_vote execute function cortex.refuse_change();

-- what the database refuses: grants and schedules -------------------------------------------------

-- The request, and how it ended, cannot be rewritten.
create trigger request_as_asked before update of id, tenant_id, idempotency_key, request_hash, graph_id, grant_id, billing_account_id, virtual_key_id, run_id, trace_id, created_at on cortex.execution_request
  for each row when ((new.id, new.tenant_id, new.idempotency_key, new.request_hash, new.graph_id, new.grant_id, new.billing_account_id, new.virtual_key_id, new.run_id, new.trace_id, new.created_at)
      is distinct from (old.id, old.tenant_id, old.idempotency_key, old.request_hash, old.graph_id, old.grant_id, old.billing_account_id, old.virtual_key_id, old.run_id, old.trace_id, old.created_at))
  execute function cortex.refuse_change();
create trigger request_ended_so before update of outcome, outcome_message, finished_at on cortex.execution_request
  for each row when (
    old.finished_at is not null and (new.outcome, new.outcome_message, new.finished_at)
      is distinct from (old.outcome, old.outcome_message, old.finished_at))
  execute function cortex.refuse_change();

-- Nor which slot it was, and how it ended.
create trigger slot_as_planned before update of id, schedule_id, scheduled_for, local_time, timezone, origin, created_at on cortex.schedule_run
  for each row when ((new.id, new.schedule_id, new.scheduled_for, new.local_time, new.timezone, new.created_at)
      is distinct from (old.id, old.schedule_id, old.scheduled_for, old.local_time, old.timezone, old.created_at)
    or new.origin is distinct from old.origin and not (old.status = 'skipped' and new.status = 'pending' and new.origin = 'backfill'))
  execute function cortex.refuse_change();
-- A skipped slot may be requested again; the outcome of other slots is final.
create trigger slot_ended_so before update of status, reason, error_code, error_message, run_id, trace_id, job_id, replaced_by, begin_by, started_at, completed_at on cortex.schedule_run
  for each row when (
    old.completed_at is not null and not (old.status = 'skipped' and new.status = 'pending')
    and (new.status, new.reason, new.error_code, new.error_message, new.run_id, new.trace_id, new.job_id, new.replaced_by, new.begin_by, new.started_at, new.completed_at)
      is distinct from (old.status, old.reason, old.error_code, old.error_message, old.run_id, old.trace_id, old.job_id, old.replaced_by, old.begin_by, old.started_at, old.completed_at))
  execute function cortex.refuse_change();

-- what follows when a job is submitted ------------------------------------------------------------
-- After a change, row triggers run before statement triggers, and triggers of one kind in the order of their names.

-- A deadline given as a length counts from the submission. A child's deadline is never later than that of its running parent.
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

-- Whether a job waits in the lane of its tenant, because that tenant has a pause or a limit or the queue has fair share.
create function cortex.has_own_lane(_queue text, _tenant uuid) returns boolean language sql stable as $$
  select _queue <> 'cortex' and exists (
    select 1 from cortex.control
    where (scope = 'tenant' and name = _tenant::text and (paused or max_running is not null)) or (scope = 'queue' and name = _queue and fair_share))
$$;

-- One statement for all: starting a statement costs more than a row, and a single submission waits for each.
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
      where serial_key is not null and (run_at is null or run_at <= cortex.now());  -- Others are settled when they become ready.
  end if;
  return null;
end $$;
create trigger job_inserted after insert on cortex.job
  referencing new table as new_job
  for each statement execute function cortex.job_inserted();

-- Cancels a child that was submitted while its parent ended, or later. A parent that can be locked has not ended, and a transaction that
-- ends it now waits and finds the child. A retry that an operator requested is meant to run.
create function cortex.job_born_late() returns trigger language plpgsql
  set jit = off set enable_seqscan = off
as $$
declare
  _parents uuid[];
  _live uuid[];
begin
  if not exists (select 1 from new_job where cancel_with_parent) then
    return null;
  end if;
  _parents := array(
    select distinct parent_id from new_job
    where cancel_with_parent and parent_id is not null and (retry_of is null or retry_count > 0));
  _live := array(
    select id from cortex.job
    where id = any (_parents) and status <> 'FAILED' and status <> 'CANCELLED'
    order by id
    for share skip locked);
  if cardinality(_live) < cardinality(_parents) then
    perform cortex.ask_to_cancel_children(array(select p from unnest(_parents) as p where p <> all (_live)));
  end if;
  return null;
end $$;
create trigger job_born_late after insert on cortex.job
  referencing new table as new_job
  for each statement execute function cortex.job_born_late();

-- A sequential group starts no member while another is in progress. A chained retry takes the place of its predecessor.
-- The name makes it run after job_inserted, which creates the entries.
create function cortex.job_joined_group() returns trigger language plpgsql as $$
declare
  _groups uuid[] := array(select distinct group_id from new_job where group_id is not null and retry_count = 0);
  _held uuid[];
begin
  if cardinality(_groups) = 0 then
    return null;
  end if;
  perform 1 from cortex.job_group where id = any (_groups) and mode = 'sequential' order by id for update;
  if not found then
    return null;
  end if;
  _held := array(
    select m.id
    from (
      select n.id, n.group_id, row_number() over (partition by n.group_id order by n.id) as place
      from new_job n
      join cortex.job_group g on g.id = n.group_id
      where g.mode = 'sequential' and n.retry_count = 0
    ) m
    where m.place > 1 or exists (
      select 1 from cortex.job j
      where j.group_id = m.group_id
        and j.status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
        and j.id not in (select id from new_job)
        and not exists (select 1 from cortex.queue_entry e where e.job_id = j.id and e.state = 'held')));
  update cortex.queue_entry set state = 'held' where job_id = any (_held);
  return null;
end $$;
create trigger job_joined_group after insert on cortex.job
  referencing new table as new_job
  for each statement execute function cortex.job_joined_group();

-- what follows when a job changes -----------------------------------------------------------------
-- In the order in which they run:
--
--   job_left_unclaimed    before the change: the entry of a job without a worker is removed
--   job_asked_to_end      a cancellation was requested: the deadline of its cleanup, its entry, audit
--   job_deadline_moved    the deadline changed (above)
--   job_held              the code does not fit the record: job_hold, webhooks
--   job_left_approval     the job waits for people no longer: its request closes; approved, it enters the queue
--   job_reordered         priority or position changed: its entry
--   job_taken_over        a worker took over an approved job: its run, its entry
--   job_touched           raw SQL changed a field: updated_at
--   job_used              runs under a grant: receipts, and the outcome of the request
--   job_updated           once for each statement, for all of its jobs:
--     costs, deadlines, groups, queue entry, run, return to the queue, notifications, reservations, history, counts, audit, failures,
--     chained retry, failed delivery, serial keys, parents and children, webhooks

-- The job was approved and no worker has taken it over: its entry is removed before anything else follows. A claim that has locked the
-- entry waits for the job, so this does not wait for the claim; the claim then finds the job ended and removes the entry itself.
create function cortex.leave_queue_unclaimed() returns trigger language plpgsql set jit = off set enable_seqscan = off as $$
begin
  delete from cortex.queue_entry
    where job_id = (select e.job_id from cortex.queue_entry e where e.job_id = old.id for update skip locked);
  return new;
end $$;
create trigger job_left_unclaimed before update of status on cortex.job
  for each row when (old.status = 'RUNNING' and old.worker_id is null and new.status <> 'RUNNING')
  execute function cortex.leave_queue_unclaimed();

-- A job that is asked to end while it has an open cleanup scope runs once more; if it waits, it becomes ready at once. It is ended when the
-- time for its cleanup is over.
create function cortex.job_asked_to_end() returns trigger language plpgsql set enable_seqscan = off set jit = off as $$
begin
  insert into cortex.job_deadline as d (job_id, at)
  values (new.id, new.cancel_requested_at + new.cleanup_seconds * interval '1 second')
  on conflict (job_id) do update
    set at = case when d.at <= new.cancel_requested_at then excluded.at else least(d.at, excluded.at) end;
  insert into cortex.audit_log (at, tenant_id, actor, action, object_type, object_id, reason)
  values (new.cancel_requested_at, new.tenant_id, new.cancel_request ->> 'actor', 'JOB_CANCEL_REQUESTED', 'job', new.id::text,
    new.cancel_request ->> 'reason');
  if new.worker_id is not null then
    perform pg_notify('cortex', 'cancel:' || new.worker_id);
  end if;
  if new.status = 'RETRY' then
    update cortex.queue_entry
      set due_at = new.cancel_requested_at,
        state = case when serial_key is null then 'ready'::cortex.entry_state else 'blocked' end
      where job_id = new.id and state = 'later';
    if new.serial_key is null then
      perform pg_notify('cortex', 'ready:' || new.queue);
    else
      perform cortex.settle_serial_keys(array[new.tenant_id], array[new.serial_key]);
    end if;
  end if;
  return null;
end $$;
create trigger job_asked_to_end after update of cancel_requested_at on cortex.job
  for each row when (new.cancel_requested_at is not null and old.cancel_requested_at is null)
  execute function cortex.job_asked_to_end();

-- A row trigger: its condition needs no call, and is false for all other jobs.
create function cortex.job_held() returns trigger language plpgsql set jit = off set enable_seqscan = off as $$
declare
  _code text := new.note ->> 'code';
  _tried boolean := not new.note ? 'handed_back';
begin
  insert into cortex.job_hold as h (job_id, job_type, codes, error, held_at)
  values (new.id, new.job_type, jsonb_build_array(_code), new.error, new.updated_at)
  on conflict (job_id) do update
  set codes = case when h.codes ? _code then h.codes else h.codes || excluded.codes end,
    offered = case when _tried then '[]' else h.offered end,
    handed_back = case when _tried then 0 else h.handed_back + 1 end,
    error = excluded.error,
    held_at = case when _tried then excluded.held_at else h.held_at end;
  if _tried and not new.note ? 'again' and new.queue <> 'cortex' then
    perform cortex.tell_webhooks_of_hold(new.id);
  end if;
  return null;
end $$;
create trigger job_held after update of status on cortex.job
  for each row when (new.status = 'RETRY' and old.status = 'RUNNING' and new.wait_reason = 'code_changed' and new.note ? 'code')
  execute function cortex.job_held();

-- A row trigger, not a statement trigger: its condition needs no call, and is false for a job that never waited for approval.
create function cortex.job_left_approval() returns trigger language plpgsql set jit = off set enable_seqscan = off as $$
begin
  update cortex.approval_request r
  set decision = d.decision::cortex.approval_decision,
    decided_by = d.decided_by,
    reason = v.reason,
    edited_details = v.edited_details,
    used_at = case when d.decision in ('approved', 'denied') then new.updated_at end,
    outcome = coalesce(d.outcome, 'cancelled'),
    closed_at = new.updated_at,
    remind_at = null,
    escalate_at = null
  from (
    select r2.id,
      case when n.ours then new.note ->> 'decision' end as decision,
      case when n.ours then new.note ->> 'outcome' end as outcome,
      case when n.ours then (new.note ->> 'decided_by')::uuid end as decided_by
    from cortex.approval_request r2
    cross join lateral (select new.note ->> 'approval_request_id' = r2.id::text as ours) n
    where r2.job_id = new.id and r2.token_hash = old.approval_token
  ) d
  left join cortex.approval_vote v on v.approval_request_id = d.id and v.user_account_id = d.decided_by
  where r.id = d.id and r.outcome is null;
  if new.status = 'RUNNING' and new.worker_id is null then
    perform cortex.enter_queue_to_go_on(new);
  end if;
  return null;
end $$;
create trigger job_left_approval after update of status on cortex.job
  for each row when (old.status = 'WAITING_FOR_APPROVAL' and new.status <> old.status)
  execute function cortex.job_left_approval();

create function cortex.enter_queue_to_go_on(_job cortex.job) returns void language plpgsql as $$
begin
  insert into cortex.queue_entry
    (id, job_id, tenant_id, queue, job_type, state, rank, position, created_at, due_at, serial_key, by_tenant)
  values (coalesce(_job.worker_job_id, nextval('cortex.queue_entry_id')), _job.id, _job.tenant_id, _job.queue, _job.job_type,
    case when _job.serial_key is null then 'ready'::cortex.entry_state else 'blocked' end,
    -_job.priority, _job.position, _job.created_at, _job.updated_at, _job.serial_key,
    cortex.has_own_lane(_job.queue, _job.tenant_id));
  if _job.serial_key is null then
    perform pg_notify('cortex', 'ready:' || _job.queue);
  else
    perform cortex.settle_serial_keys(array[_job.tenant_id], array[_job.serial_key]);
  end if;
end $$;

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

create function cortex.job_taken_over() returns trigger language plpgsql set jit = off set enable_seqscan = off as $$
begin
  update cortex.job_run
    set worker_id = new.worker_id
    where job_id = new.id and id = new.run_id and status = 'RUNNING';
  update cortex.open_run set worker_id = new.worker_id where job_id = new.id and id = new.run_id;
  delete from cortex.queue_entry where job_id = new.id;
  return null;
end $$;
create trigger job_taken_over after update of worker_id on cortex.job
  for each row when (
    old.status = 'RUNNING' and new.status = 'RUNNING' and old.worker_id is null and new.worker_id is not null)
  execute function cortex.job_taken_over();

-- updated_at for fields that raw SQL changes without increasing the revision.
create function cortex.touch_job() returns trigger language plpgsql as $$
begin
  update cortex.job set updated_at = greatest(cortex.now(), old.updated_at + interval '1 microsecond') where id = new.id;
  return null;
end $$;
create trigger job_touched after update of
  queue, priority, position, retry_policy, max_retries, run_at, timeout_seconds, deadline_at, job_key, serial_key, created_by, tags on cortex.job
  for each row when (new.revision = old.revision and new.updated_at = old.updated_at)
  execute function cortex.touch_job();

-- What attempts used since the last write, and the outcome of the request. Costs and tokens are counted once, because each write is
-- applied once.
create function cortex.job_used() returns trigger language plpgsql set jit = off set enable_seqscan = off as $$
declare
  _tokens json := new.checkpoint #> '{memory_context,token_usage}';
  _before json := old.checkpoint #> '{memory_context,token_usage}';
begin
  insert into cortex.charge_receipt as c
    (run_id, attempt, unit, quantity, request_id, billing_account_id, grant_id, virtual_key_id)
  select new.id, new.attempt, used.unit, used.quantity, r.id, r.billing_account_id, r.grant_id, r.virtual_key_id
  from cortex.execution_request r
  cross join (values
    ('cents', new.cost_cents - old.cost_cents),
    ('prompt_tokens',
      coalesce((_tokens ->> 'prompt_tokens')::bigint, 0) - coalesce((_before ->> 'prompt_tokens')::bigint, 0)),
    ('completion_tokens',
      coalesce((_tokens ->> 'completion_tokens')::bigint, 0) - coalesce((_before ->> 'completion_tokens')::bigint, 0))
    ) as used (unit, quantity)
  where r.id = new.request_id and used.quantity > 0
  order by used.unit
  on conflict (run_id, attempt, unit) do update
  set quantity = c.quantity + excluded.quantity, updated_at = cortex.now();

  -- The outcome of the run itself, not of its children, nor of a later run that an operator started.
  if new.finished_at is not null and old.finished_at is null
    and (new.status <> 'FAILED' or new.revision = old.revision or new.note ->> 'retry_as' is null)
  then
    update cortex.execution_request
    set outcome = new.status, outcome_message = new.error_message, finished_at = new.finished_at
    where id = new.request_id and run_id = coalesce(new.effect_root, new.id) and finished_at is null;
  end if;
  return null;
end $$;
create trigger job_used after update on cortex.job
  for each row when (new.request_id is not null)
  execute function cortex.job_used();

-- All consequences are in one function, because a single agent waits for every function that is called when it saves a checkpoint.
-- A claim may take over one run and open others in the same statement.
-- Rows are found by arrays of ids, which only the primary keys can serve: the planner cannot choose to read a whole table for each
-- batch, no matter which table sizes it assumed when it made the cached plan.
-- One small statement for each consequence, run only if there is one: starting a statement costs more than a row.
-- Joins are small on both sides, so they are always hashed; `finish`, which calls this, disables hash joins.
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
  -- Runs that continue, as after every checkpoint: found by one small query, without a join.
  if not exists (select 1 from new_job where status <> 'RUNNING' or cost_cents > 0)
    and not exists (select 1 from old_job where status <> 'RUNNING')
  then
    return null;
  end if;
  -- Costs come first: a change of a control or a reservation takes advisory lock 0 before those of serial keys.
  -- Growth is the new cost less the old cost, by job: one sort and no join.
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
        and note ->> 'claimed_as' is null  -- A job that is taken over has its run already.
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

-- what job_updated calls, in its order ------------------------------------------------------------

-- Adds the costs of jobs to the totals, and pauses what has spent its budget.
create function cortex.count_costs(_of_tenants uuid[], _of_job_types text[], _cents bigint[]) returns void language plpgsql as $$
declare
  _job_types text[];
  _tenants text[];
begin
  with cost as materialized (
    select tenant_id, job_type, sum(cents)::bigint as cents
    from unnest(_of_tenants, _of_job_types, _cents) as u(tenant_id, job_type, cents)
    group by tenant_id, job_type
  ), free as materialized (
    select c.tenant_id, c.job_type, c.cents, t.part
    from cost c
    left join lateral (
      select part from cortex.cost_total
      where tenant_id = c.tenant_id and job_type = c.job_type
      order by part limit 1
      for no key update skip locked) t on true
  ), grown as (
    update cortex.cost_total t set cents = t.cents + f.cents
    from free f
    where t.tenant_id = f.tenant_id and t.job_type = f.job_type and t.part = f.part
  ), added as (
    insert into cortex.cost_total (tenant_id, job_type, cents)
    select tenant_id, job_type, cents from free where part is null
  )
  select array_agg(distinct job_type), array_agg(distinct tenant_id::text) into _job_types, _tenants from cost;
  -- Shared: either a budget that is being set counts this cost, or this transaction reads the budget.
  perform pg_advisory_xact_lock_shared(1129270868, 0);
  if exists (select 1 from cortex.control where on_exhausted = 'pause' and not paused) then
    perform cortex.pause_spent_budgets(_job_types, _tenants);
  end if;
end $$;

-- Pauses those agents and tenants whose budget is spent, once. Concurrent transactions take turns at the row of the control, so that
-- the second one counts what the first has spent. Waiting jobs that are locked get their lane from a later claim.
create function cortex.pause_spent_budgets(_job_types text[], _tenants text[]) returns void language plpgsql as $$
declare
  _budget record;
  _spent bigint;
  _reason text;
begin
  for _budget in
    select scope, name, budget_cents from cortex.control
    where on_exhausted = 'pause' and not paused
      and ((scope = 'agent' and name = any (_job_types)) or (scope = 'tenant' and name = any (_tenants)))
    order by scope, name
    for update
  loop
    _spent := cortex.spent_cents(_budget.scope, _budget.name);
    continue when _spent < _budget.budget_cents;
    _reason := format('The budget is spent: %s of %s cents.', _spent, _budget.budget_cents);
    update cortex.control
      set paused = true, paused_by = 'budget', paused_at = cortex.now(), pause_reason = _reason,
        updated_by = 'budget', updated_at = cortex.now()
      where scope = _budget.scope and name = _budget.name;
    if _budget.scope = 'tenant' then
      insert into cortex.lane_pass (id) values (1) on conflict (id) do update set again = true;
    end if;
    insert into cortex.audit_log (tenant_id, actor, action, object_type, object_id, reason, details)
      values (case _budget.scope when 'tenant' then _budget.name::uuid end, 'budget', 'BUDGET_EXHAUSTED', _budget.scope,
        _budget.name, _reason, jsonb_build_object('spent_cents', _spent, 'budget_cents', _budget.budget_cents));
  end loop;
end $$;

create function cortex.spent_cents(_scope text, _name text) returns bigint language sql stable as $$
  select coalesce(case _scope
    when 'agent' then (select sum(cents) from cortex.cost_total where job_type = _name)
    when 'tenant' then (select sum(cents) from cortex.cost_total where tenant_id = _name::uuid)
  end, 0)::bigint
$$;

-- The end of a member adds a job that advances its group, unless one is waiting already. Members that the group itself ended need none.
create function cortex.members_ended(_ended uuid[]) returns void language plpgsql as $$
declare
  _groups uuid[] := cortex.not_yet_asked(array(
    select distinct group_id from cortex.job where id = any (_ended) and group_id is not null and cause <> 'group'));
begin
  insert into cortex.group_failure (job_id, group_id)
  select j.id, g.id
  from cortex.job j
  join cortex.job_group g on g.id = j.group_id
  where j.id = any (_ended) and j.status = 'FAILED' and not coalesce(j.note ? 'retry_as', false)
    and g.on_failure <> 'continue' and not g.stopping
  on conflict do nothing;
  if cardinality(_groups) > 0 then
    perform cortex.ask_to_advance(_groups);
  end if;
  insert into cortex.job_run
    (id, job_id, attempt, tenant_id, queue, job_type, serial_key, template_id, params_snapshot, status, started_at, finished_at,
     closed_by)
  select (note ->> 'skipped_as')::uuid, id, 0, tenant_id, queue, job_type, serial_key, template_id, payload, 'SKIPPED',
    updated_at, updated_at, coalesce(actor, cause)
  from cortex.job
  where id = any (_ended) and group_id is not null and cause = 'group' and status = 'CANCELLED' and attempt = 0
    and note ? 'skipped_as';
end $$;

-- Those of the groups that have no ready job which will advance them after this transaction.
-- Such a job is locked, so that it cannot be claimed earlier. A job that cannot be locked is being claimed, and may read too early.
create function cortex.not_yet_asked(_groups uuid[]) returns uuid[] language plpgsql as $$
declare
  _asked uuid[];
begin
  if cardinality(_groups) = 0 then
    return _groups;
  end if;
  _asked := array(
    select g.id from cortex.job_group g
    join cortex.queue_entry e on e.tenant_id = g.tenant_id and e.serial_key = g.id::text
    where g.id = any (_groups) and e.serial_key is not null and e.state = 'ready'
      and e.job_type = 'cortex.group'
    for share of e skip locked);
  if cardinality(_asked) > 0 then
    perform pg_notify('cortex', 'ready:cortex');  -- A claim that met the lock has skipped it.
  end if;
  return array(select g from unnest(_groups) as g where g <> all (_asked));
end $$;

-- Adds jobs that advance groups. Under the lock of a group's key, a blocked job stays blocked until this transaction has ended, and will
-- read the group then. If another transaction has that lock, one more job is added.
create function cortex.ask_to_advance(_groups uuid[]) returns void language plpgsql as $$
declare
  _locked uuid[] := array(
    select g.id from cortex.job_group g where g.id = any (_groups) and cortex.try_serial_key(g.tenant_id, g.id::text));
  _missing uuid[] := cortex.not_yet_asked(_groups);
begin
  insert into cortex.job (tenant_id, agent_id, job_type, queue, payload, max_retries, serial_key, cause, actor)
  select g.tenant_id, a.id, a.job_type, 'cortex', jsonb_build_object('group_id', g.id),
    coalesce((a.skill_config -> 'retry' ->> 'max_retries')::int, 3), g.id::text, 'group', 'group'
  from cortex.job_group g
  join cortex.agent a on a.job_type = 'cortex.group'
  where g.id = any (_missing)
    and not (g.id = any (_locked) and exists (
      select 1 from cortex.queue_entry e
      where e.tenant_id = g.tenant_id and e.serial_key = g.id::text and e.serial_key is not null
        and e.state = 'blocked' and e.job_type = 'cortex.group'))
  order by g.id;
end $$;

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

create function cortex.record_failures(_jobs uuid[]) returns void language sql as $$
  insert into cortex.audit_log (tenant_id, actor, action, object_type, object_id, details)
  select tenant_id, actor, case when note ->> 'exhausted' = 'true' then 'JOB_EXHAUSTED_RETRIES' else 'JOB_FAILED' end, 'job', id::text,
    jsonb_build_object('job_type', job_type, 'retry_count', retry_count, 'cause', cause, 'error', error ->> 'type',
      'error_message', error_message)
  from cortex.job
  where id = any (_jobs)
  order by id;
$$;

-- Creates the retries of jobs that FAILED and whose policy is `chain`.
create function cortex.chain(_jobs uuid[]) returns void language plpgsql as $$
begin
  perform cortex.add_successor('chain', id, (note ->> 'retry_as')::uuid, actor, null, null, null, null)
    from (select id, note, actor from cortex.job where id = any (_jobs) order by id offset 0) j;
end $$;

-- Successors: jobs that are made of another job. This is the only place that defines which fields a successor takes over.
--
--              linked by   starts from             retries   effect ids   parent, group   grant, schedule, trace
--   chain      retry_of    the checkpoint          counted   the same     kept            kept
--   resume     retry_of    the checkpoint          reset     the same     kept            kept (2)
--   settle     retry_of    the checkpoint given    reset     the same     kept            kept (2)
--   retry      retry_of    the beginning           reset     the same(1)  kept            kept (2)
--   fork       nothing     the checkpoint given    reset     new          dropped         dropped
--
--   A deadline given as a length counts from the new submission. A deadline given as an instant is kept if it has not passed; a chained
--   retry keeps it in any case.
--   (1) New ids if the job COMPLETED or was CANCELLED: its effects are then wanted once more.
--   (2) So its usage is charged to the grant; no successor is made once the grant was revoked. A fork is charged to no grant.
--   Whoever ran it again is added to the submitters.
--
-- A job has at most one linked successor, because retry_of is unique. A second call with the same id changes nothing.
create function cortex.add_successor(
  _kind text, _job uuid, _new uuid, _actor text, _created_by text, _parent uuid, _checkpoint_id uuid, _checkpoint text
) returns setof uuid language plpgsql
  set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
begin
  if exists (select 1 from cortex.job where id = _new) then
    return;
  end if;
  if _kind not in ('chain', 'fork') then
    -- A revocation either happened before this, or finds the successor.
    perform 1 from cortex.job j
    join cortex.execution_request r on r.id = j.request_id
    join cortex.execution_grant g on g.id = r.grant_id
    where j.id = _job
    for share of g;
    if exists (
      select 1 from cortex.job j
      join cortex.execution_request r on r.id = j.request_id
      join cortex.execution_grant g on g.id = r.grant_id
      where j.id = _job and g.revoked_at is not null)
    then
      return;
    end if;
  end if;
  return query
    insert into cortex.job (
      id, retry_of, cause, actor, retry_count, run_at,
      tenant_id, agent_id, job_type, queue, priority, payload, max_retries, retry_policy, timeout_seconds, serial_key,
      template_id, session_id, tags, created_by, submitters, deadline_seconds, deadline_at,
      group_id, parent_id, cancel_with_parent, schedule_id, request_id, trace_id, effect_root,
      checkpoint_id, checkpoint)
    select
      _new,
      case when _kind <> 'fork' then j.id end,
      case when _kind = 'chain' then 'retry' else _kind end,
      _actor,
      case when _kind = 'chain' then j.retry_count + 1 else 0 end,
      case when _kind = 'chain' then j.updated_at + (j.note ->> 'retry_delay_seconds')::double precision * interval '1 second' end,

      j.tenant_id, j.agent_id, j.job_type, j.queue, j.priority, j.payload, j.max_retries, j.retry_policy, j.timeout_seconds,
      j.serial_key, j.template_id, j.session_id, j.tags, coalesce(_created_by, j.created_by),
      case when _kind = 'chain' then j.submitters else (
        select jsonb_agg(distinct b.signature)
        from (
          select e.value as signature from jsonb_array_elements_text(j.submitters) e
          union all select case when _created_by is not null then j.created_by end
          union all select _actor) b
        where b.signature is not null) end,
      j.deadline_seconds,
      case when j.deadline_seconds is null and (_kind = 'chain' or j.deadline_at > cortex.now()) then j.deadline_at end,

      case when _kind <> 'fork' then j.group_id end,
      case when _kind <> 'fork' then coalesce(_parent, j.parent_id) end,
      _kind <> 'fork' and j.cancel_with_parent,
      case when _kind <> 'fork' then j.schedule_id end,
      case when _kind <> 'fork' then j.request_id end,
      case when _kind <> 'fork' then j.trace_id end,
      case when _kind in ('chain', 'resume', 'settle') or (_kind = 'retry' and j.status = 'FAILED') then coalesce(j.effect_root, j.id) end,

      case when _kind in ('chain', 'resume') then j.checkpoint_id when _kind in ('fork', 'settle') then _checkpoint_id end,
      case when _kind in ('chain', 'resume') then j.checkpoint when _kind in ('fork', 'settle') then _checkpoint::json end
    from cortex.job j
    where j.id = _job
      and (_kind = 'fork' or j.status in ('COMPLETED', 'FAILED', 'CANCELLED'))
    on conflict (retry_of) where retry_of is not null do nothing
    returning id;
  if not found or _kind = 'retry' then
    return;
  end if;
  -- Large results, and the segments that its checkpoint names.
  insert into cortex.job_blob (job_id, sha256, content, seq)
  select j.id, b.sha256, b.content, b.seq
  from cortex.job j
  cross join cortex.job_blob b
  where j.id = _new
    and b.job_id = _job
    and (b.seq is null or b.seq <= (j.checkpoint #>> '{memory_context,working_data,$cortex,sealed,last}')::int);
  if _kind = 'fork' then
    return;
  end if;
  -- The state of a graph is stored in the thread that has the job's id.
  insert into cortex.graph_checkpoint (thread_id, namespace, checkpoint_id, parent_id, run_id, kind, content, channels, metadata)
  select _new::text, namespace, checkpoint_id, parent_id, run_id, kind, content, channels, metadata
  from cortex.graph_checkpoint where thread_id = _job::text;
  insert into cortex.graph_value (thread_id, namespace, channel, version, kind, content)
  select _new::text, namespace, channel, version, kind, content
  from cortex.graph_value where thread_id = _job::text;
  insert into cortex.graph_write (thread_id, namespace, checkpoint_id, task_id, place, channel, task_path, kind, content)
  select _new::text, namespace, checkpoint_id, task_id, place, channel, task_path, kind, content
  from cortex.graph_write where thread_id = _job::text;
end $$;

create function cortex.keep_failed_deliveries(_failed uuid[]) returns void language sql as $$
  insert into cortex.failed_delivery (job_id, retry_at, give_up_at)
  select j.id, j.updated_at + greatest(interval '5 minutes', j.updated_at - f.created_at), f.created_at + interval '7 days'
  from cortex.job j
  join cortex.job f on f.id = coalesce(j.effect_root, j.id)
  where j.id = any (_failed)
    and j.updated_at < f.created_at + interval '7 days';
$$;

-- Parents and children. A child ends: its parent, if it waits for a child, becomes ready. A parent ends FAILED or CANCELLED: a job for
-- the agent `cortex.children` cancels the children that end with it. A transaction that ends or suspends a job never waits for related
-- jobs: it skips rows that others have locked, and those are looked at later. These functions are called last, when the entries of a
-- change exist.
--
-- A job that starts to wait for a child that has ended, or does not exist, becomes ready at once. No wake-up is lost:
--   the child has ended                                         it is found here
--   another transaction is ending it, and has locked its row    it cannot be locked, counts as ended, and the job looks again
--   no transaction has begun to end it                          one that does waits for our lock, and finds the job waiting
create function cortex.look_for_ended_children(_jobs uuid[]) returns void language plpgsql
  set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_nestloop = on
as $$
declare
  _live uuid[] := array(
    select c.id from cortex.job c
    where c.id = any (array(select (p.note ->> 'child')::uuid from cortex.job p where p.id = any (_jobs)))
      and c.finished_at is null
    order by c.id
    for share skip locked);
begin
  perform cortex.make_due(array(
    select p.id from cortex.job p where p.id = any (_jobs) and (p.note ->> 'child')::uuid <> all (_live)));
end $$;

-- Makes jobs ready that wait for a child. A job that is locked becomes ready by its timer.
create function cortex.make_due(_jobs uuid[]) returns void language plpgsql
  set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_nestloop = on
as $$
declare
  _due uuid[];
begin
  _due := array(
    select job_id from cortex.queue_entry
    where job_id = any (_jobs) and state = 'later'
    order by job_id
    for update skip locked);
  _due := array(
    select id from cortex.job
    where id = any (_due) and status = 'RETRY' and wait_reason = 'child'
    order by id
    for update skip locked);
  if cardinality(_due) = 0 then
    return;
  end if;
  update cortex.job
    set next_retry_at = greatest(cortex.now(), updated_at), updated_at = greatest(cortex.now(), updated_at)
    where id = any (_due);
  update cortex.queue_entry
    set due_at = cortex.now(),
      state = case
        when serial_key is null then 'ready'::cortex.entry_state
        else 'blocked'
      end
    where job_id = any (_due);
  perform pg_notify('cortex', 'ready:' || queue) from cortex.queue_entry
    where job_id = any (_due) and state = 'ready' group by queue;
  perform cortex.settle_serial_keys(array_agg(tenant_id), array_agg(serial_key)) from cortex.queue_entry
    where job_id = any (_due) and state = 'blocked' having count(*) > 0;
end $$;

-- Adds a job that cancels the children, for those of the jobs that have children that end with them.
create function cortex.ask_to_cancel_children(_parents uuid[]) returns void language sql
  set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_nestloop = on
as $$
  insert into cortex.job (tenant_id, agent_id, job_type, queue, payload, max_retries, created_by, cause, actor)
  select p.tenant_id, a.id, a.job_type, 'cortex', jsonb_build_object('parent_id', p.id),
    coalesce((a.skill_config #>> '{retry,max_retries}')::int, 3), a.job_type, 'submit', a.job_type
  from cortex.job p
  join cortex.agent a on a.job_type = 'cortex.children'
  where p.id = any (_parents)
    and exists (select 1 from cortex.job c where c.parent_id = p.id and c.cancel_with_parent and c.finished_at is null)
  order by p.id;
$$;

-- A job ends once, so the id of its event is derived from the job's id: the same for each endpoint and each attempt.
-- Long outputs are omitted from the message; the receiver can fetch the job.
-- A job that FAILED because the outcome of a tool call is unknown causes a job.uncertain event too.
create function cortex.tell_webhooks(_ended uuid[]) returns void language sql as $$
  insert into cortex.job (tenant_id, agent_id, job_type, queue, payload, max_retries, created_by, cause, actor)
  select n.tenant_id, a.id, a.job_type, 'cortex',
    jsonb_build_object(
      'endpoint_id', e.id,
      'event_id', 'evt_' || replace(n.id::text, '-', '') || t.suffix,
      'event', jsonb_build_object(
        'type', t.type,
        'timestamp', cortex.iso(n.finished_at),
        'data', jsonb_build_object(
          'job_id', n.id,
          'agent', n.job_type,
          'queue', n.queue,
          'status', n.status,
          'attempt', n.attempt,
          'tags', n.tags,
          'error_message', n.error_message,
          'output', case when length(n.output::text) <= 16384 then n.output end,
          'output_omitted', coalesce(length(n.output::text) > 16384, n.output_blob is not null),
          'retry_of', n.retry_of,
          'retried_as', n.note ->> 'retry_as'))),
    coalesce((a.skill_config #>> '{retry,max_retries}')::int, 3), a.job_type, 'submit', a.job_type
  from cortex.job n
  join cortex.webhook_endpoint e on e.tenant_id = n.tenant_id and e.enabled
  join cortex.agent a on a.job_type = 'cortex.webhook'
  cross join lateral (
    select 'job.' || lower(n.status::text) as type, '' as suffix
    union all
    select 'job.uncertain', '_uncertain' where n.status = 'FAILED' and n.error ->> 'type' = 'ToolUncertain'
  ) t
  where n.id = any (_ended)
    and n.queue <> 'cortex'
    and e.events ?| array['*', 'job.*', t.type]
  order by n.id, e.id, t.type;
$$;

-- A job may be held more than once; the revision makes the id of the event unique.
create function cortex.tell_webhooks_of_hold(_job uuid) returns void language sql as $$
  insert into cortex.job (tenant_id, agent_id, job_type, queue, payload, max_retries, created_by, cause, actor)
  select n.tenant_id, a.id, a.job_type, 'cortex',
    jsonb_build_object(
      'endpoint_id', e.id,
      'event_id', 'evt_' || replace(n.id::text, '-', '') || '_held_' || n.revision,
      'event', jsonb_build_object(
        'type', 'job.held',
        'timestamp', cortex.iso(n.updated_at),
        'data', jsonb_build_object(
          'job_id', n.id,
          'agent', n.job_type,
          'queue', n.queue,
          'status', n.status,
          'attempt', n.attempt,
          'tags', n.tags,
          'wait_reason', n.wait_reason,
          'step', n.error ->> 'step',
          'error_message', n.error ->> 'message'))),
    coalesce((a.skill_config #>> '{retry,max_retries}')::int, 3), a.job_type, 'submit', a.job_type
  from cortex.job n
  join cortex.webhook_endpoint e on e.tenant_id = n.tenant_id and e.enabled
  join cortex.agent a on a.job_type = 'cortex.webhook'
  where n.id = _job
    and e.events ?| array['*', 'job.*', 'job.held']
  order by e.id;
$$;

-- what follows when a job is deleted --------------------------------------------------------------

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

create function cortex.job_left_no_approvals() returns trigger language plpgsql
  set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
begin
  delete from cortex.approval_request where job_id = any (array(select id from old_job));
  return null;
end $$;
create trigger job_left_no_approvals after delete on cortex.job
  referencing old table as old_job
  for each statement execute function cortex.job_left_no_approvals();

create function cortex.job_left_no_graph() returns trigger language plpgsql
  set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
  _gone text[] := array(select cast(id as text) from old_job);
begin
  delete from cortex.graph_write where thread_id = any (_gone);
  delete from cortex.graph_value where thread_id = any (_gone);
  delete from cortex.graph_checkpoint where thread_id = any (_gone);
  return null;
end $$;
create trigger job_left_no_graph after delete on cortex.job
  referencing old table as old_job
  for each statement execute function cortex.job_left_no_graph();

create function cortex.job_left_nothing() returns trigger language plpgsql
  set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
  _gone uuid[] := array(select id from old_job);
begin
  delete from cortex.job_blob where job_id = any (_gone);
  delete from cortex.job_event where job_id = any (_gone);
  delete from cortex.job_hold where job_id = any (_gone);
  return null;
end $$;
create trigger job_left_nothing after delete on cortex.job
  referencing old table as old_job
  for each statement execute function cortex.job_left_nothing();

-- what follows when queue entries change ----------------------------------------------------------

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

-- Folds changes into the counts, one transaction at a time; returns the number of changes.
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

-- Recounts everything: for a database whose triggers were disabled for a time.
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

-- what follows when an approval closes ------------------------------------------------------------

create function cortex.approval_closed() returns trigger language plpgsql as $$
begin
  delete from cortex.approval_approver where approval_request_id = new.id;
  delete from cortex.approval_notice where approval_request_id = new.id;
  perform cortex.notify_approvers(new.id, 'settle');
  return null;
end $$;
create trigger approval_closed after update of outcome on cortex.approval_request
  for each row when (old.outcome is null and new.outcome is not null)
  execute function cortex.approval_closed();

-- Creates a job for the agent `cortex.notify` for each person. By purpose: `ask` those who can still vote, `remind` those of them who were
-- not notified recently, `escalate` to those who were added, and `settle` with those who have a token.
create function cortex.notify_approvers(_request uuid, _purpose text) returns void language sql as $$
  with told as (
    insert into cortex.approval_notice as n (approval_request_id, user_account_id, notified_at)
    select r.id, u.id, cortex.now()
    from cortex.approval_request r
    join cortex.user_account u on u.id in (
      select p.user_account_id from cortex.approval_approver p
      where p.approval_request_id = r.id and p.user_account_id is not null and (_purpose <> 'escalate' or p.escalated)
      union
      select m.user_account_id from cortex.approval_approver p
      join cortex.group_member m on m.group_id = p.user_group_id
      where p.approval_request_id = r.id and (_purpose <> 'escalate' or p.escalated)
      union
      select o.user_account_id from cortex.user_role o
      where not r.designated and _purpose in ('ask', 'remind')
        and o.role = 'approver' and (o.tenant_id is null or o.tenant_id = r.tenant_id))
    where r.id = _request
      and _purpose <> 'settle'
      and u.disabled_at is null
      and u.owner_id is null
      and not exists (select 1 from cortex.approval_vote v where v.approval_request_id = r.id and v.user_account_id = u.id)
      and not (r.no_self_approval
        and exists (select 1 from cortex.job_submitter s where s.job_id = r.job_id and s.user_account_id = u.id))
      and not (_purpose = 'remind' and exists (
        select 1 from cortex.approval_notice b
        where b.approval_request_id = r.id and b.user_account_id = u.id
          and b.notified_at + r.remind_after_seconds * interval '1 second' > cortex.now()))
    on conflict (approval_request_id, user_account_id) do update set notified_at = excluded.notified_at
    returning user_account_id
  ), people as (
    select user_account_id from told
    union
    select t.user_account_id from cortex.approval_token t where t.approval_request_id = _request and _purpose = 'settle'
  )
  insert into cortex.job (tenant_id, agent_id, job_type, queue, payload, max_retries, created_by, cause, actor)
  select r.tenant_id, a.id, a.job_type, 'cortex',
    jsonb_build_object('approval_request_id', r.id, 'user_account_id', p.user_account_id, 'purpose', _purpose),
    coalesce((a.skill_config #>> '{retry,max_retries}')::int, 3), a.job_type, 'submit', a.job_type
  from cortex.approval_request r
  join cortex.agent a on a.job_type = 'cortex.notify'
  join people p on true
  where r.id = _request
  order by p.user_account_id;
$$;

-- Creates a delivery of `approval.undecidable` for each endpoint that subscribes to it.
create function cortex.tell_webhooks_of_undecidable(_request uuid, _problem text) returns void language sql as $$
  insert into cortex.job (tenant_id, agent_id, job_type, queue, payload, max_retries, created_by, cause, actor)
  select r.tenant_id, a.id, a.job_type, 'cortex',
    jsonb_build_object(
      'endpoint_id', e.id,
      'event_id', 'evt_' || replace(r.id::text, '-', '') || '_undecidable',
      'event', jsonb_build_object(
        'type', 'approval.undecidable',
        'timestamp', cortex.iso(r.created_at),
        'data', jsonb_build_object(
          'approval_request_id', r.id,
          'job_id', r.job_id,
          'agent', j.job_type,
          'summary', r.action_summary,
          'problem', _problem))),
    coalesce((a.skill_config #>> '{retry,max_retries}')::int, 3), a.job_type, 'submit', a.job_type
  from cortex.approval_request r
  join cortex.job j on j.id = r.job_id
  join cortex.webhook_endpoint e on e.tenant_id = r.tenant_id and e.enabled
  join cortex.agent a on a.job_type = 'cortex.webhook'
  where r.id = _request
    and e.events ?| array['*', 'approval.*', 'approval.undecidable']
  order by e.id;
$$;

-- serial keys -------------------------------------------------------------------------------------
-- Of the entries with one serial key, the first is ready while no worker runs that key; all others are blocked.
--
-- A key is settled under its advisory lock, which is tried, never waited for: take the lock first, then read. A transaction that does not
-- get the lock leaves a mark in key_to_settle, and the next claim settles the key. A submission leaves a mark and takes no lock: its
-- transaction belongs to its caller, and may stay open for long.

create function cortex.settle_serial_keys(_tenants uuid[], _keys text[]) returns void language plpgsql
  set jit = off set enable_seqscan = off
as $$
declare
  _key record;
  _room int := 500;  -- The server has room for this many locks of one transaction, and some more.
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

-- The mark up to which this session has read, so that the next claim reads on from there. While a transaction has an old snapshot, settled
-- marks stay in the index, and a read from the beginning reads them all. A setting of the session, not a row, which would itself gather dead
-- versions. A client that gets the session from a pooler may use the setting: it is valid for all.
-- [1] the mark; [2] the next value of it, [3] since when: transactions that had taken an earlier mark have mostly ended by then.
create function cortex.marks_read() returns numeric[] language sql stable
as $$ select coalesce(nullif(current_setting('cortex.marks_read', true), ''), '{0,0,0}')::numeric[] $$;

-- Settles up to _limit of the marked keys. A key whose lock is taken keeps its mark, and delays no other key.
-- With _read_on it misses a mark whose transaction took long; a read of all marks finds it.
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

-- While a transaction has an old snapshot, claimed entries of a key stay in its indexes: each is read once.
create function cortex.settle_serial_key(_tenant uuid, _key text) returns void language plpgsql as $$
declare
  _ready cortex.queue_entry;
  _first cortex.queue_entry;
begin
  select * into _ready from cortex.queue_entry
    where tenant_id = _tenant and serial_key = _key and serial_key is not null and state = 'ready';
  if found then
    -- An entry that is locked or removed by now is being claimed, or changed by a transaction that will settle the key after this one.
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

-- claims ------------------------------------------------------------------------------------------

-- Claims the first ready entries that no other claim has locked, one for each run id.
-- An approved job has a run already, which the worker takes over; `claimed_as` is the run id that was given for it.
-- Reads windows of candidates until enough of them could be locked or none are left.
-- `_free` of them begin at once, the others are prefetched: those must not belong to a group, because they could not be stopped any more.
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
    -- Locked entries are skipped; entries that were claimed since are gone.
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
        updated_at = greatest(cortex.now(), j.updated_at),  -- A claim that waited must not be older than the change that it waited for.
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

-- Locks entries together with their jobs; returns those that could be locked, in the given order. Members of a group with a failure to
-- handle are left out.
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

-- Removes those of the locked entries whose jobs ended before they could be claimed.
create function cortex.put_away_entries(_taken uuid[]) returns void language plpgsql set jit = off set enable_seqscan = off as $$
declare
  _tenants uuid[];
  _keys text[];
begin
  with gone as (
    delete from cortex.queue_entry e
    where e.job_id = any (_taken) and exists (select 1 from cortex.job j where j.id = e.job_id and j.finished_at is not null)
    returning e.tenant_id, e.serial_key
  )
  select array_agg(tenant_id), array_agg(serial_key) into _tenants, _keys from gone where serial_key is not null;
  if _keys is not null then
    perform cortex.settle_serial_keys(_tenants, _keys);
  end if;
end $$;

-- After a claim that failed: delays the jobs that cannot be started by a minute, so that they do not block others. Each is started and rolled
-- back. A user's own trigger, or a forged row of history, can make a job unstartable.
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

-- The first ready entries after the heads of their queues: {queue, job_type, rank, position, created_at, job_id}, the last entry of each
-- priority that was claimed some time ago. While a transaction has an old snapshot, claimed entries stay in the index, and a read from the
-- beginning reads them all. Priorities without a head are read from their beginning.
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

-- Of the first _look ready entries after a place, those of these queues and agents, in order. Null: too few of them match, and more entries
-- follow. Sorts are disabled: a plan from a time when the table was small would read and sort all ready entries.
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

-- The same by lanes, one for each queue and agent: exact, no matter how many entries of other agents come first. The first entry of each lane
-- decides which lanes can have the best entries; _limit lanes are enough.
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

-- claims while pauses, limits, fair shares or reservations apply ----------------------------------

-- Whether any setting applies to a claim from these queues for these agents. Settings of others do not slow it.
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

-- Both wait at most for the lock_timeout of the claim. False: the lock was not free; the worker is notified to claim again.
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

-- Chooses and locks. Locked entries are skipped, and the next candidates take their places. A claim of one job would come back empty if ten
-- were locked before it, so each round looks for locked entries further ahead than the last.
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

-- Those of the entries that `cortex.lock_entries` cannot lock. The locks that it took are released.
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

-- The jobs to claim while pauses, limits, fair shares or reservations apply, in order. Candidates are admitted one by one while their queue,
-- agent and tenant have room. With fair share the tenants take turns at the places that the jobs of the queue have among others.
-- With `_any_number`, a queue, agent or tenant that has any room has room for any number.
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
          and (tenant_id <> all (_shut) or l.queue = 'cortex')  -- Not moved to their lanes yet: see cortex.lane_pass.
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

-- The tenants with ready jobs in their own lanes of a queue, in order of service, found by a skip scan of the index. With fair share the
-- order is by turns, then by the first job; otherwise by the first job.
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

-- Candidates among the jobs in lanes of tenants: they include the next _limit. A queue with fair share is read in layers, some jobs of each
-- tenant; in any other queue the first tenants have the first jobs.
-- (`job_type || ''` prevents the index by agent, which would need a lookup for each agent of each tenant.)
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

-- With fair share: counts the turns of served tenants, and advances the clock of the queue. Only one claim counts at a time, so a locked row
-- is locked by a foreign transaction; its turn is not counted, because a claim waits for no row.
create function cortex.count_turns(_chosen uuid[]) returns void language plpgsql as $$
declare
  _clock constant uuid := '00000000-0000-0000-0000-000000000000';
begin
  with taken as materialized (  -- Found by their ids alone: joined with the control, a whole queue might be read.
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

-- what workers call -------------------------------------------------------------------------------

-- Saves a batch of checkpoints, each fenced by its run id and by the checkpoint that it follows. A checkpoint that is stored already is a
-- repeated write whose answer was lost. Returns the ids of the jobs to which they applied.
-- Documents are separate values, not parts of a larger document, so that each is parsed once.
create function cortex.save_checkpoints(
  _jobs uuid[], _runs uuid[], _ids uuid[], _previous uuid[], _documents text[], _costs bigint[],
  _blob_jobs uuid[], _blob_digests text[], _blob_contents text[], _blob_seqs int[]
) returns setof uuid language plpgsql
  set lock_timeout = '250ms' set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
declare
  _applied uuid[];
begin
  with saved as (
    update cortex.job j
    set checkpoint = c.document::json,
      checkpoint_id = c.id,
      cost_cents = j.cost_cents + case when j.checkpoint_id = c.id then 0 else c.cost_cents end,
      updated_at = greatest(cortex.now(), j.updated_at)
    from unnest(_jobs, _runs, _ids, _previous, _documents, _costs)
      as c(job_id, run_id, id, previous_id, document, cost_cents)
    where j.id = c.job_id
      and j.run_id = c.run_id
      and (j.checkpoint_id is not distinct from c.previous_id or j.checkpoint_id = c.id)
    returning j.id
  )
  select array_agg(id) into _applied from saved;
  if cardinality(_blob_jobs) > 0 and _applied is not null then
    insert into cortex.job_blob (job_id, sha256, content, seq)
    select b.job_id, b.sha256, b.content, b.seq
    from unnest(_blob_jobs, _blob_digests, _blob_contents, _blob_seqs) as b(job_id, sha256, content, seq)
    where cardinality(_applied) = cardinality(_jobs) or b.job_id = any (_applied)
    on conflict (job_id, sha256) do nothing;
  end if;
  return query select unnest(_applied);
end $$;

-- Applies a batch of transitions out of RUNNING, each fenced by its run id. A transition may include the job's last checkpoint.
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

-- Makes ready the entries that are due, in small batches; returns their number.
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

-- Ends jobs whose deadline has passed, in small batches; returns their number. A job that never ran is CANCELLED, any other FAILED.
-- The entry is locked before the job, as a claim does; locked rows are left for the next call.
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

-- Whether a job that ends at its deadline is CANCELLED: it never ran, or a cancellation was requested.
create function cortex.ends_cancelled(_job cortex.job) returns boolean language sql immutable as $$
  select _job.status = 'PENDING' or (_job.cancel_requested_at is not null and _job.cancel_request ->> 'kind' = 'cancel')
$$;

-- Releases a held member, so that it waits like any other job. False if it was not held.
create function cortex.let_go(_job uuid) returns boolean language plpgsql as $$
declare
  _entry cortex.queue_entry;
begin
  update cortex.queue_entry
  set state = case
      when due_at > cortex.now() then 'later'::cortex.entry_state
      when serial_key is not null then 'blocked'
      else 'ready'
    end
  where job_id = _job and state = 'held'
  returning * into _entry;
  if _entry.state = 'ready' then
    perform pg_notify('cortex', 'ready:' || _entry.queue);
  elsif _entry.state = 'blocked' then
    perform cortex.settle_serial_keys(array[_entry.tenant_id], array[_entry.serial_key]);
  end if;
  return _entry.job_id is not null;
end $$;

-- Renews the lease of a worker. Returns whether it is asked to drain; null if it is no longer LIVE. If another transaction has locked its
-- row, the heartbeat goes to worker_beat, under the advisory lock of that worker. While cortex.declare_lost has that lock, the heartbeat
-- waits for the row, so that no heartbeat is acknowledged to a worker that is being declared LOST.
create function cortex.beat(_worker uuid) returns boolean language plpgsql set jit = off as $$
declare
  _draining boolean;
begin
  update cortex.worker
    set heartbeat_at = cortex.now(), lease_until = cortex.now() + lease_seconds * interval '1 second'
    where id = (select w.id from cortex.worker w where w.id = _worker and w.status = 'LIVE' for no key update skip locked)
      and status = 'LIVE'
    returning drain_asked_at is not null into _draining;
  if found then
    delete from cortex.worker_beat where worker_id = _worker;
    return _draining;
  end if;
  if not pg_try_advisory_xact_lock(1129270870, hashtext(_worker::text)) then
    update cortex.worker
      set heartbeat_at = cortex.now(), lease_until = cortex.now() + lease_seconds * interval '1 second'
      where id = _worker and status = 'LIVE'
      returning drain_asked_at is not null into _draining;
    return _draining;
  end if;
  insert into cortex.worker_beat (worker_id, lease_until)
    select id, cortex.now() + lease_seconds * interval '1 second' from cortex.worker where id = _worker and status = 'LIVE';
  if not found then
    return null;
  end if;
  select drain_asked_at is not null into _draining from cortex.worker where id = _worker;
  return _draining;
end $$;

-- Declares LOST every worker except the caller whose lease has expired. A worker whose row is locked is left for the next call. Takes the
-- locks first, then reads worker_beat in a separate statement.
create function cortex.declare_lost(_me uuid) returns table (id uuid, name text) language plpgsql set jit = off as $$
declare
  _judged uuid[];
begin
  _judged := array(
    select w.id from cortex.worker w
    where w.status = 'LIVE' and w.lease_until < cortex.now() and w.id <> _me
    for update skip locked);
  _judged := array(select j.id from unnest(_judged) as j(id) where pg_try_advisory_xact_lock(1129270870, hashtext(j.id::text)));
  return query
    update cortex.worker w
    set status = 'LOST'
    where w.id = any (_judged) and w.status = 'LIVE' and w.lease_until < cortex.now()
      and not exists (select 1 from cortex.worker_beat b where b.worker_id = w.id and b.lease_until >= cortex.now())
    returning w.id, w.name;
end $$;

-- A claim in progress has the advisory lock of its worker, shared, so that it locks no row that the heartbeat needs. A transaction that ends
-- a worker takes that lock exclusively and then reads: no claim can add a run to a worker that has ended.
create function cortex.no_claim_under_way(_worker uuid) returns boolean language sql volatile
as $$ select pg_try_advisory_xact_lock(1129270869, hashtext(_worker::text)) $$;

-- Stops a worker gracefully. False: it is no longer LIVE, or has an open run, which must be rescued.
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

-- what programs call ------------------------------------------------------------------------------

-- Refuses a job of an agent or a tenant whose budget is spent, if the budget is set to refuse.
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
    raise exception '% "%" has spent % of its budget of % cents, so new jobs are rejected; waiting jobs still run.',
      initcap(_budget.scope), _budget.label, to_char(_budget.spent_cents, 'FM999,999,999,999,999,990'),
      to_char(_budget.budget_cents, 'FM999,999,999,999,999,990')
      using errcode = 'insufficient_privilege',
        hint = format('To raise the budget: cortex budgets set CENTS --%s %L', _budget.scope, _budget.label);
  end loop;
end $$;

-- Gives a job its key. Returns the job that has it: the new one, or with unsafe_dedupe the existing one. A waiting job that had the key is
-- cancelled, and with preserve_run_at the new one gets its run_at.
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

-- retention: functions ----------------------------------------------------------------------------

-- The next jobs after a given one, oldest first. The settings force a scan of the primary key that stops at the limit.
create function cortex.jobs_after(_after uuid, _limit int)
returns table (
  id uuid, tenant_id uuid, job_type text, status cortex.job_status, created_at timestamptz, finished_at timestamptz)
language plpgsql stable
  set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
  return query
    select j.id, j.tenant_id, j.job_type, j.status, j.created_at, j.finished_at
    from cortex.job j
    where j.id > _after
    order by j.id
    limit _limit;
end $$;

-- What prevents the deletion of jobs: `needed`, because something in progress may still read the job; `predecessor`, the job that it
-- retries, if that still exists.
create function cortex.held_back(_jobs uuid[]) returns table (id uuid, predecessor uuid, needed boolean, group_id uuid) language plpgsql stable
  set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
  return query
    with recursive chain (first_id, id, status) as (
      select j.id, j.id, j.status from cortex.job j where j.id = any (_jobs)
      union all
      select c.first_id, r.id, r.status from chain c join cortex.job r on r.retry_of = c.id
    ), live as materialized (
      select distinct first_id from chain where status not in ('COMPLETED', 'FAILED', 'CANCELLED')
    )
    select j.id, p.id,
      j.id in (select first_id from live)
      or exists (
        select 1 from cortex.job c
        where c.parent_id = j.id and c.status not in ('COMPLETED', 'FAILED', 'CANCELLED'))
      or exists (
        select 1 from cortex.job c
        where c.id = j.parent_id and c.status not in ('COMPLETED', 'FAILED', 'CANCELLED'))
      or exists (select 1 from cortex.job_group g where g.id = j.group_id and g.finished_at is null)
      or exists (
        select 1 from cortex.job m
        where m.group_id = j.group_id and m.status not in ('COMPLETED', 'FAILED', 'CANCELLED')),
      j.group_id
    from cortex.job j
    left join cortex.job p on p.id = j.retry_of
    where j.id = any (_jobs);
end $$;

-- Deletes jobs that have ended, with their runs and history. A function, so that its settings apply to the triggers too.
create function cortex.delete_jobs(_jobs uuid[]) returns setof uuid language plpgsql
  set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
begin
  return query
    delete from cortex.job j
    where j.id = any (_jobs) and j.status in ('COMPLETED', 'FAILED', 'CANCELLED')
    returning j.id;
end $$;

-- Delete the oldest records of other kinds that have ended. Ids sort by age, so they are at the old end of the primary key.
create function cortex.delete_workers(_before uuid, _ended_before timestamptz, _limit int) returns setof uuid language plpgsql
  set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set plan_cache_mode = force_generic_plan
as $$
begin
  return query
    delete from cortex.worker where id = any (array(
      select r.id from cortex.worker r
      where r.id < _before and r.ended_at < _ended_before
      order by r.id
      limit _limit
      for update skip locked))
    returning id;
end $$;

create function cortex.delete_direct_reservations(_before uuid, _ended_before timestamptz, _limit int) returns setof uuid language plpgsql
  set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set plan_cache_mode = force_generic_plan
as $$
begin
  return query
    delete from cortex.direct_reservation where id = any (array(
      select r.id from cortex.direct_reservation r
      where r.id < _before and r.ended_at < _ended_before
      order by r.id
      limit _limit
      for update skip locked))
    returning id;
end $$;

-- Delete the oldest records that have ended. The newest slot of each schedule stays: the next one is computed from it.
create function cortex.delete_execution_requests(_before uuid, _ended_before timestamptz, _limit int) returns setof uuid language plpgsql
  set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set plan_cache_mode = force_generic_plan
as $$
begin
  return query
    delete from cortex.execution_request where id = any (array(
      select r.id from cortex.execution_request r
      where r.id < _before and r.finished_at < _ended_before
      order by r.id
      limit _limit
      for update skip locked))
    returning id;
end $$;

create function cortex.delete_schedule_runs(_ended_before timestamptz, _limit int) returns setof uuid language plpgsql
  set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off
  set plan_cache_mode = force_generic_plan
as $$
begin
  return query
    delete from cortex.schedule_run where id = any (array(
      select r.id from cortex.schedule_run r
      where r.completed_at < _ended_before
        and exists (
          select 1 from cortex.schedule_run n
          where n.schedule_id = r.schedule_id and n.scheduled_for > r.scheduled_for)
      order by r.completed_at
      limit _limit
      for update skip locked))
    returning id;
end $$;

create function cortex.delete_audit_entries(_after bigint, _through bigint) returns setof bigint language plpgsql
  set jit = off set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan
as $$
begin
  return query
    delete from cortex.audit_log where seq > _after and seq <= _through
    returning seq;
end $$;
