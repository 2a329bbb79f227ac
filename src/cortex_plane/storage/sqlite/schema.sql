-- The schema of a SQLite database, as version 1 of it. Changes after a release are migrations, in the folder beside this file.
--
-- Tables stand in the order of the nouns, each with its indexes. Then come the triggers: what the database refuses, what follows
-- from a change of a job, and the procedures.
--
--   who writes what
--     job            every client, within the thirteen transitions; the single source of truth
--     job_run        triggers of job: a run opens and closes with its job's state
--     job_history    triggers of job: one row for each transition, never changed
--     queue_entry    triggers of job: one row for each job that waits to be claimed
--
-- Ids are canonical UUID text, instants are microseconds since 1970 in UTC, JSON is text.
-- Nothing here needs more than SQLite 3.38, so that other clients can open the file.

-- installation ------------------------------------------------------------------------------------

create table migration (
  version integer primary key,
  name text not null,
  checksum text not null,
  applied_at integer not null
) strict;

-- tenants -----------------------------------------------------------------------------------------

create table tenant (
  id text primary key,
  name text not null unique check (name <> ''),
  created_at integer not null
) strict;
insert into tenant (id, name, created_at) values ('00000000-0000-7000-8000-000000000000', 'default', 0);

-- audit -------------------------------------------------------------------------------------------
-- Every client appends to the log concurrently. A background task then seals the entries in batches; each seal is one row of a hash chain.

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
-- For searches, newest first. The entries of one object are few; audit_log_of_object serves them. Completions are most of all
-- entries and are not searched by actor, action or tenant, so they are left out: each of these indexes would cost every job.
create index audit_log_newest on audit_log (at);
create index audit_log_of_actor on audit_log (actor, at) where actor is not null and action <> 'JOB_COMPLETED';
create index audit_log_of_action on audit_log (action, at) where action <> 'JOB_COMPLETED';
create index audit_log_of_tenant on audit_log (tenant_id, at) where tenant_id is not null and action <> 'JOB_COMPLETED';

create table audit_seal (
  number integer primary key check (number > 0),
  first_seq integer not null,
  last_seq integer not null,
  entries integer not null check (entries > 0),
  fingerprints blob not null,
  digest text not null check (length(digest) = 64),
  previous_digest text not null check (length(previous_digest) = 64),
  sealed_at integer not null,
  constraint a_fingerprint_for_each_entry check (length(fingerprints) = entries * 40),
  constraint first_is_not_after_last check (first_seq <= last_seq)
) strict;

-- The last seal that was exported to each target, by SHA-256 of its address.
create table seal_export (
  target text primary key check (length(target) = 64),
  number integer not null check (number > 0)
) strict;

-- How far the audit log was pruned, in one row. Only entries up to this mark can be deleted. The mark moves only to the end of a seal
-- that a rule no longer keeps, and only after the pruning was recorded in the log.
create table audit_pruned (
  id integer primary key check (id = 1),
  seal integer not null,
  digest text not null check (length(digest) = 64),
  last_seq integer not null,
  pruned_at integer not null
) strict;
insert into audit_pruned (id, seal, digest, last_seq, pruned_at)
values (1, 0, '0000000000000000000000000000000000000000000000000000000000000000', -9223372036854775808, 0);

-- agents ------------------------------------------------------------------------------------------

create table agent (
  id text primary key,
  job_type text not null unique check (job_type <> ''),
  skill_config text not null default '{}' check (json_valid(skill_config)),
  created_at integer not null,
  updated_at integer not null
) strict;

-- people ------------------------------------------------------------------------------------------
-- Who decides, how they are reached, and what they may do.
-- An account with an owner is a service account: programs act as it with its API keys. It has no password and cannot decide approvals.

create table user_account (
  id text primary key,
  name text not null unique check (name <> ''),
  display_name text check (display_name <> ''),
  email text check (email like '%_@_%'),
  owner_id text references user_account (id),
  created_at integer not null,
  disabled_at integer,
  constraint nobody_owns_themselves check (owner_id <> id)
) strict;

create table user_group (
  id text primary key,
  tenant_id text not null references tenant (id),
  name text not null check (name <> ''),
  created_at integer not null,
  unique (tenant_id, name)
) strict;

create table group_member (
  group_id text not null references user_group (id) on delete cascade,
  user_account_id text not null references user_account (id) on delete cascade,
  primary key (group_id, user_account_id)
) strict, without rowid;
create index group_member_of_user on group_member (user_account_id);

create table channel_mapping (
  id text primary key,
  user_account_id text not null references user_account (id) on delete cascade,
  channel_type text not null check (channel_type <> ''),
  channel_user_id text not null check (channel_user_id <> ''),
  created_at integer not null,
  unique (channel_type, channel_user_id)
) strict;
create index channel_mapping_of_user on channel_mapping (user_account_id);

create table session (
  id text primary key,
  tenant_id text not null default '00000000-0000-7000-8000-000000000000' references tenant (id),
  user_account_id text not null references user_account (id),
  agent_id text references agent (id),
  channel text,
  created_at integer not null,
  ended_at integer
) strict;
create index session_of_user on session (user_account_id, id);
create index session_of_tenant on session (tenant_id, id);

-- A role without a tenant applies to all tenants.
create table user_role (
  user_account_id text not null references user_account (id) on delete cascade,
  tenant_id text references tenant (id),
  role text not null check (role in ('viewer', 'submitter', 'operator', 'approver', 'admin'))
) strict;
create unique index user_role_once on user_role (user_account_id, coalesce(tenant_id, ''), role);

create table user_password (
  user_account_id text primary key references user_account (id) on delete cascade,
  hash text not null check (hash like '$argon2id$%'),
  changed_at integer not null
) strict;

create table login_session (
  token_hash text primary key check (length(token_hash) = 64),
  user_account_id text not null references user_account (id) on delete cascade,
  created_at integer not null,
  last_used_at integer not null,
  expires_at integer not null
) strict;
create index login_session_of_user on login_session (user_account_id);
create index login_session_expiry on login_session (expires_at);

create table api_key (
  id text primary key,
  tenant_id text references tenant (id),
  name text not null check (name <> ''),
  prefix text not null check (length(prefix) between 8 and 24),
  hash text not null unique check (length(hash) = 64),
  roles text not null check (json_valid(roles) and json_type(roles) = 'array' and json_array_length(roles) > 0),
  user_account_id text references user_account (id) on delete cascade,
  created_by text,
  created_at integer not null,
  last_used_at integer,
  expires_at integer,
  revoked_at integer
) strict;
create index api_key_of_tenant on api_key (tenant_id);
create index api_key_of_user on api_key (user_account_id);
create index api_key_by_prefix on api_key (prefix);

-- costs -------------------------------------------------------------------------------------------

-- Totals never decrease: the cost of a deleted job stays.
create table cost_total (
  tenant_id text not null,
  job_type text not null,
  cents integer not null check (cents >= 0),
  primary key (tenant_id, job_type)
) strict, without rowid;
create index cost_total_of_agent on cost_total (job_type);

-- Budgets that are spent, and whose agent or tenant is not paused yet.
create view spent_budget as
select scope, name, budget_cents, spent_cents,
  printf('The budget is spent: %d of %d cents.', spent_cents, budget_cents) as reason
from (
  select scope, name, budget_cents, coalesce(case scope
    when 'agent' then (select sum(cents) from cost_total where job_type = control.name)
    when 'tenant' then (select sum(cents) from cost_total where tenant_id = control.name)
  end, 0) as spent_cents
  from control
  where on_exhausted = 'pause' and not paused)
where spent_cents >= budget_cents;

create table billing_account (
  id text primary key,
  tenant_id text not null references tenant (id),
  name text not null check (name <> ''),
  default_virtual_key_id text not null check (default_virtual_key_id <> ''),
  created_at integer not null,
  unique (tenant_id, name)
) strict;

-- jobs --------------------------------------------------------------------------------------------

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
  checkpoint_id text,
  cleanup_seconds real check (cleanup_seconds > 0),
  cancel_requested_at integer,
  cancel_request text check (cancel_request is null or json_valid(cancel_request)),
  cancel_with_parent integer not null default 0 check (cancel_with_parent in (0, 1)),
  request_id text,
  trace_id text,

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
create index job_of_agent on job (agent_id, id desc);
create index job_of_queue on job (queue, id desc);
create index job_of_tenant on job (tenant_id, id desc);
create unique index job_retry_of on job (retry_of) where retry_of is not null;
create index job_of_group on job (group_id, id) where group_id is not null;
-- The column never changes, so no transition writes to this index.
create index job_of_parent on job (parent_id) where parent_id is not null;
-- These columns never change, so no transition writes to these indexes.
create index job_of_schedule on job (schedule_id) where schedule_id is not null;
create index job_of_request on job (request_id) where request_id is not null;

-- In place of sequences: the last position and the last id of a queue entry.
create table counter (
  name text primary key,
  value integer not null
) strict, without rowid;
insert into counter (name, value) values ('position', 0), ('queue_entry', 0);

-- Jobs by tag. A separate table, because most jobs have no tags, and an index over lists cannot be read newest first.
-- No foreign key: when a job is deleted, its rows are found by the job's own list of tags.
create table job_tag (
  tag text not null,
  job_id text not null,
  primary key (tag, job_id)
) strict, without rowid;

-- The job that has each job key: the last one that was submitted with it.
create table job_key (
  tenant_id text not null,
  job_key text not null,
  job_id text not null,
  primary key (tenant_id, job_key)
) strict, without rowid;

-- Jobs that have a deadline and have not ended. A separate table, because an index on job would contain ended jobs too.
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
-- The guarantee of serial_key: at most one open run with a worker for each key.
create unique index job_run_one_for_each_serial_key on job_run (tenant_id, serial_key)
  where status = 'RUNNING' and worker_id is not null and serial_key is not null;

-- Open runs. On SQLite an index of them does not slow the end of a run; PostgreSQL has a table.
create view open_run as
select job_id, id, worker_id, tenant_id, queue, job_type, serial_key from job_run where status = 'RUNNING';

-- The id is derived: the job's id with the revision in its last digits.
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

-- How far the reconciler has checked the jobs for inconsistencies, and when. One row.
create table job_reconciler (
  id integer primary key check (id = 1),
  reconciled_at integer not null,
  after text not null
) strict;
insert into job_reconciler (id, reconciled_at, after) values (1, 0, '00000000-0000-0000-0000-000000000000');

-- checkpoints, events and holds -------------------------------------------------------------------

-- Large results, and the sealed segments of long checkpoints, which are numbered by seq.
create table job_blob (
  job_id text not null references job (id) on delete cascade,
  sha256 text not null check (length(sha256) = 64),
  content text not null,
  seq integer check (seq > 0),
  created_at integer not null,
  primary key (job_id, sha256)
) strict;
create unique index job_blob_segment on job_blob (job_id, seq) where seq is not null;

create table job_event (
  seq integer primary key,
  job_id text not null references job (id) on delete cascade,
  run_id text not null,
  at integer not null,
  kind text not null check (kind <> ''),
  data text not null check (json_valid(data))
) strict;
create index job_event_of_job on job_event (job_id);

-- Versions of the code that did not fit the record of a job. A worker with one of them hands the job back while other workers may
-- have code that fits.
create table job_hold (
  job_id text primary key references job (id) on delete cascade,
  job_type text not null,
  codes text not null check (json_type(codes) = 'array'),
  offered text not null default '[]' check (json_type(offered) = 'array'),
  handed_back integer not null default 0 check (handed_back >= 0),
  error text check (error is null or json_valid(error)),
  held_at integer not null
) strict;
create index job_hold_of_agent on job_hold (job_type);

-- The checkpoint of a job in the form of the specification, with the log, the tool calls and the recorded steps of its segments included.
-- If a call is in several segments, the newest one counts. `crc32` is that of job.checkpoint.
create view checkpoint_part (job_id, seq, content) as
select b.job_id, b.seq, b.content
from job j
join job_blob b on b.job_id = j.id
  and b.seq between j.checkpoint ->> '$.memory_context.working_data."$cortex".sealed.first'
    and j.checkpoint ->> '$.memory_context.working_data."$cortex".sealed.last'
union all
select id, 9223372036854775807, json_object(
  'execution_log', json(checkpoint -> '$.execution_log'), 'active_tools', json(checkpoint -> '$.active_tools'),
  'steps', json(coalesce(checkpoint -> '$.memory_context.working_data."$cortex".steps', '{}')))
from job
where checkpoint is not null;

create view job_checkpoint (job_id, checkpoint_id, checkpoint) as
select j.id, j.checkpoint_id, iif(
  j.checkpoint -> '$.memory_context.working_data."$cortex".sealed' is null,
  j.checkpoint,
  json_set(
    json_remove(j.checkpoint, '$.memory_context.working_data."$cortex".sealed'),
    '$.execution_log', json((
      select json_group_array(json(value))
      from (select l.value from checkpoint_part p, json_each(p.content, '$.execution_log') l where p.job_id = j.id order by p.seq, l.id))),
    '$.active_tools', json((
      select json_group_array(json(value))
      from (
        select t.value, max(p.seq) as newest, t.id as place
        from checkpoint_part p, json_each(p.content, '$.active_tools') t
        where p.job_id = j.id
        group by t.value ->> 'invocation_id'
        order by newest, place))),
    '$.memory_context.working_data."$cortex".steps', json((
      select json_group_object(key, json(value))
      from (
        select s.key, s.value, max(p.seq) as newest
        from checkpoint_part p, json_each(p.content, '$.steps') s
        where p.job_id = j.id
        group by s.key)
      where value ->> 'again' is null))))
from job j
where j.checkpoint is not null;

-- queues ------------------------------------------------------------------------------------------

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
-- The order over all queues: a worker that serves most queues and agents reads the first entries, no matter how many of them there are.
create index queue_entry_ready_in_order on queue_entry (rank, position, created_at, job_id)
  where state = 'ready' and by_tenant = 0;
-- Separate lanes by tenant exist only for tenants with a pause or a limit, and for queues with fair share.
create index queue_entry_ready_by_tenant on queue_entry (queue, job_type, tenant_id, rank, position, created_at, job_id)
  where state = 'ready' and by_tenant = 1;
-- The order of each queue by state: read by moves, by pages and by `why`.
create index queue_entry_in_order on queue_entry (queue, state, rank, position, created_at, job_id);
create index queue_entry_ready_of_tenant on queue_entry (queue, tenant_id, rank, position, created_at, job_id, job_type)
  where state = 'ready' and by_tenant = 1;
create index queue_entry_later on queue_entry (due_at) where state = 'later';
create index queue_entry_of_key on queue_entry (tenant_id, serial_key, rank, position, created_at, job_id)
  where serial_key is not null and state in ('ready', 'blocked');
create unique index queue_entry_one_ready_for_each_key on queue_entry (tenant_id, serial_key)
  where serial_key is not null and state = 'ready';

-- Counts of entries by queue and tenant and by state, and of jobs that wait for approval by queue.
create table entry_count (
  scope text not null check (scope in ('queue', 'tenant', 'asking')),
  name text not null,
  state text not null,
  entries integer not null,
  primary key (scope, name, state)
) strict, without rowid;

-- Settings of operators for the gate, a queue, an agent or a tenant. Without a row nothing is set.
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

create table direct_reservation (
  id text primary key,
  queue text not null check (queue <> ''),
  job_id text not null unique,
  reserved_by text not null,
  reserved_at integer not null,
  expires_at integer not null,
  status text not null default 'ACTIVE' check (status in ('ACTIVE', 'RELEASED', 'EXPIRED')),
  ended_at integer,
  constraint ended_at_exactly_when_over check ((status = 'ACTIVE') = (ended_at is null))
) strict;
create unique index direct_reservation_one_active on direct_reservation (queue) where status = 'ACTIVE';

-- Turns that each tenant has had in a queue with fair share. The tenant of zeros is the clock of the queue.
create table fair_turn (
  queue text not null,
  tenant_id text not null,
  served integer not null,
  primary key (queue, tenant_id)
) strict, without rowid;

-- While there is a row, waiting jobs are moved into or out of the lanes of their tenants, page by page; `after` is the last job that was moved.
create table lane_pass (
  id integer primary key check (id = 1),
  after text not null default '00000000-0000-0000-0000-000000000000',
  again integer not null default 0 check (again in (0, 1))
) strict;

-- templates ---------------------------------------------------------------------------------------

create table job_template (
  id text primary key,
  tenant_id text not null references tenant (id),
  name text not null check (name <> ''),
  job_type text not null,
  params text not null default '{}' check (json_type(params) = 'object'),
  options text not null default '{}' check (json_type(options) = 'object'),
  version integer not null default 1 check (version > 0),
  created_by text,
  changed_by text,
  created_at integer not null,
  updated_at integer not null,
  unique (tenant_id, name)
) strict;

-- webhooks ----------------------------------------------------------------------------------------
-- Notified when a job ends, or is held because its code does not fit.
-- A delivery is a job of the internal queue, created in the transaction that ends the other job.

create table webhook_endpoint (
  id text primary key,
  tenant_id text not null references tenant (id),
  url text not null check (url <> ''),
  secret text not null check (secret <> ''),
  events text not null check (json_type(events) = 'array'),
  enabled integer not null default 1 check (enabled in (0, 1)),
  description text,
  allow_private integer not null default 0 check (allow_private in (0, 1)),
  created_by text,
  created_at integer not null,
  disabled_at integer,
  disabled_reason text,
  constraint disabled_at_exactly_when_disabled check (enabled = (disabled_at is null)),
  constraint disabled_reason_only_when_disabled check (disabled_reason is null or not enabled)
) strict;
create index webhook_endpoint_enabled on webhook_endpoint (tenant_id) where enabled = 1;

-- When each endpoint was last notified about a subject that many jobs share, so that it is not notified for each of them.
create table webhook_notice (
  endpoint_id text not null references webhook_endpoint (id) on delete cascade,
  subject text not null,
  event_id text not null,
  told_at integer not null,
  primary key (endpoint_id, subject)
) strict, without rowid;

-- Failed deliveries (webhooks, notifications) are retried after the time that was spent on attempts so far, at least five minutes, until a
-- week after the first was submitted.
create table failed_delivery (
  job_id text primary key references job (id) on delete cascade,
  retry_at integer not null,
  give_up_at integer not null
) strict, without rowid;
create index failed_delivery_due on failed_delivery (retry_at);

-- approvals ---------------------------------------------------------------------------------------
-- What people were asked and how they voted.
--
--   RUNNING ──▶ WAITING_FOR_APPROVAL     with a request; job.approval_token names it
--   the job leaves that state ──▶ its request closes with the outcome in the note of that change, and notified people are told the outcome
--   ... as RUNNING ──▶ an open run without a worker, and a queue entry: the claim that takes the entry takes over the run
--
-- So a request cannot be closed while its job waits, and a job cannot stop waiting and leave its request open.

create table approval_request (
  id text primary key,
  job_id text not null references job (id) on delete cascade,
  run_id text not null,
  tenant_id text not null,
  gate_key text not null check (gate_key <> ''),
  token_hash text not null check (length(token_hash) = 64),
  requested_by_agent_id text not null references agent (id) on delete restrict,
  approver_user_account_id text references user_account (id) on delete set null,
  designated integer not null check (designated in (0, 1)),
  approvers text not null check (json_valid(approvers)),
  escalate_to text not null check (json_valid(escalate_to)),
  notification_channels text not null default '[]' check (json_type(notification_channels) = 'array'),
  action_summary text not null,
  action_details text not null default '{}' check (json_valid(action_details)),
  digest text not null check (length(digest) = 64),
  quorum integer not null default 1 check (quorum > 0),
  votes integer not null default 0 check (votes >= 0),
  no_self_approval integer not null default 0 check (no_self_approval in (0, 1)),
  editable text not null default 'false' check (json_valid(editable)),
  on_expiry text not null default 'fail' check (on_expiry in ('fail', 'deny', 'approve', 'default')),
  default_value text not null default 'null' check (json_valid(default_value)),
  on_denial text not null default 'fail' check (on_denial in ('fail', 'raise')),
  supersedes text,
  decision text check (decision in ('approved', 'denied', 'expired')),
  decided_by text references user_account (id) on delete set null,
  reason text,
  edited_details text check (edited_details is null or json_valid(edited_details)),
  used_at integer,
  outcome text check (outcome in ('approved', 'denied', 'failed', 'defaulted', 'cancelled', 'superseded')),
  closed_at integer,
  ttl_seconds real not null check (ttl_seconds > 0),
  remind_after_seconds real check (remind_after_seconds > 0),
  remind_at integer,
  reminders integer not null default 0 check (reminders >= 0),
  escalate_at integer,
  escalated_at integer,
  expires_at integer not null,
  created_at integer not null,

  constraint chk_action_summary_not_empty check (length(trim(action_summary)) > 0),
  constraint uq_approval_token_hash unique (token_hash),
  constraint chk_decision_used_at check (
    (decision is not null and decision in ('approved', 'denied') and used_at is not null)
    or decision is 'expired'
    or (decision is null and used_at is null)),
  constraint closed_at_exactly_with_an_outcome check ((outcome is null) = (closed_at is null)),
  constraint a_decision_has_an_outcome check (decision is null or (outcome is not null and outcome not in ('cancelled', 'superseded'))),
  constraint only_people_edit check (edited_details is null or decision is 'approved')
) strict;
create index idx_approval_request_job_id on approval_request (job_id, created_at desc);
create index idx_approval_request_expired on approval_request (expires_at) where outcome is null;
create index idx_approval_request_approver on approval_request (approver_user_account_id, created_at desc)
  where outcome is null;
create index idx_approval_request_tenant on approval_request (tenant_id, id desc);
create index idx_approval_request_open on approval_request (id desc) where outcome is null;
create index idx_approval_request_open_of_job on approval_request (job_id) where outcome is null;
create index idx_approval_request_open_to_all on approval_request (tenant_id, id desc)
  where outcome is null and not designated;
create index idx_approval_request_remind on approval_request (remind_at) where outcome is null and remind_at is not null;
create index idx_approval_request_escalate on approval_request (escalate_at)
  where outcome is null and escalate_at is not null;

create table approval_vote (
  approval_request_id text not null references approval_request (id) on delete cascade,
  user_account_id text not null references user_account (id),
  decision text not null check (decision in ('approved', 'denied')),
  reason text,
  edited_details text check (edited_details is null or json_valid(edited_details)),
  door text not null check (door <> ''),
  created_at integer not null,
  primary key (approval_request_id, user_account_id)
) strict, without rowid;
create index approval_vote_of_user on approval_vote (user_account_id);

create table approval_token (
  token_hash text primary key check (length(token_hash) = 64),
  approval_request_id text not null references approval_request (id) on delete cascade,
  user_account_id text not null references user_account (id) on delete cascade,
  channel_type text not null,
  channel_user_id text not null,
  serial integer not null,
  created_at integer not null,
  replaced_at integer
) strict;
create index approval_token_of_user on approval_token (user_account_id);
create index approval_token_of_address on approval_token (approval_request_id, user_account_id, channel_type, channel_user_id);

-- The inbox: users and groups that are named as approvers of open requests. Rows are deleted when the request closes.
create table approval_approver (
  approval_request_id text not null references approval_request (id) on delete cascade,
  user_account_id text references user_account (id) on delete cascade,
  user_group_id text references user_group (id) on delete cascade,
  escalated integer not null default 0 check (escalated in (0, 1)),
  constraint a_user_or_a_group check ((user_account_id is null) <> (user_group_id is null))
) strict;
create index approval_approver_of_request on approval_approver (approval_request_id);
create index approval_approver_of_user on approval_approver (user_account_id, approval_request_id desc)
  where user_account_id is not null;
create index approval_approver_of_group on approval_approver (user_group_id, approval_request_id desc)
  where user_group_id is not null;

-- When each person was last notified or reminded of an open request, on any channel. Rows are deleted when the request closes.
create table approval_notice (
  approval_request_id text not null references approval_request (id) on delete cascade,
  user_account_id text not null references user_account (id) on delete cascade,
  notified_at integer not null,
  untold integer not null default 0 check (untold in (0, 1)),
  primary key (approval_request_id, user_account_id)
) strict, without rowid;
create index approval_notice_of_user on approval_notice (user_account_id);

-- groups ------------------------------------------------------------------------------------------
-- Jobs that belong together.
--
--   a member ends ──▶ a job for the agent `cortex.group` ──▶ it reads all members and takes the next step
--
-- A sequential group releases one member at a time; the entries of the others are `held`, and no claim reads those.

create table job_group (
  id text primary key,
  tenant_id text not null references tenant (id),
  name text check (name <> ''),
  group_key text check (group_key <> ''),
  request_hash text,
  mode text not null check (mode in ('parallel', 'sequential')),
  on_failure text not null check (on_failure in ('stop', 'continue', 'skip')),
  callback text check (callback is null or json_type(callback) = 'object'),
  callback_job_id text,
  created_by text,
  created_at integer not null,
  finished_at integer,
  stopping integer not null default 0 check (stopping in (0, 1)),
  constraint called_back_only_when_finished check (callback_job_id is null or (callback is not null and finished_at is not null))
) strict;
create unique index job_group_of_key on job_group (tenant_id, group_key) where group_key is not null;

-- Members that failed permanently, until their group has handled it: until then no claim starts another member of the group.
create table group_failure (
  job_id text primary key,
  group_id text not null
) strict, without rowid;
create index group_failure_of_group on group_failure (group_id);

-- grants ------------------------------------------------------------------------------------------

create table execution_grant (
  id text primary key,
  tenant_id text not null references tenant (id),
  user_account_id text references user_account (id),
  billing_account_id text not null references billing_account (id),
  scopes text not null check (json_valid(scopes) and json_type(scopes) = 'array' and json_array_length(scopes) > 0),
  expires_at integer,
  max_uses integer check (max_uses > 0),
  uses integer not null default 0 check (uses >= 0),
  revoked_at integer,
  revoked_by text,
  revoke_reason text,
  created_by text,
  created_at integer not null,
  constraint uses_within_max check (max_uses is null or uses <= max_uses)
) strict;
create index execution_grant_of_user on execution_grant (user_account_id);
create index execution_grant_of_billing_account on execution_grant (billing_account_id);
-- Each schedule has its own grant, so there are many. Serves the pages of a tenant's grants.
create index execution_grant_of_tenant on execution_grant (tenant_id, id);

-- No foreign key to job: the request is kept longer than the job.
create table execution_request (
  id text primary key,
  tenant_id text not null references tenant (id),
  idempotency_key text not null check (idempotency_key <> ''),
  request_hash text not null check (length(request_hash) = 64),
  graph_id text not null,
  grant_id text not null references execution_grant (id),
  billing_account_id text not null references billing_account (id),
  virtual_key_id text not null,
  run_id text not null unique,
  trace_id text not null,
  service_name text,
  outcome text check (outcome in ('COMPLETED', 'FAILED', 'CANCELLED')),
  outcome_message text,
  created_at integer not null,
  finished_at integer,
  unique (tenant_id, idempotency_key),
  constraint finished_at_exactly_with_outcome check ((outcome is null) = (finished_at is null))
) strict;
create index execution_request_of_grant on execution_request (grant_id);

create table charge_receipt (
  run_id text not null,
  attempt integer not null,
  unit text not null check (unit in ('cents', 'prompt_tokens', 'completion_tokens')),
  quantity integer not null check (quantity > 0),
  request_id text not null references execution_request (id) on delete cascade,
  billing_account_id text not null references billing_account (id),
  grant_id text not null references execution_grant (id),
  virtual_key_id text not null,
  created_at integer not null,
  updated_at integer not null,
  primary key (run_id, attempt, unit)
) strict, without rowid;
create index charge_receipt_of_account on charge_receipt (billing_account_id, unit);
create index charge_receipt_of_request on charge_receipt (request_id);

-- graphs ------------------------------------------------------------------------------------------
-- The state of graphs: what an executor such as LangGraph stores for a thread, so that any worker can resume it.
--
--   the thread of a job has the job's id, and is deleted with it
--   a checkpoint ──▶ one value for each of its channels, by version; all checkpoints with that version share it
--   a checkpoint ──▶ what tasks wrote after it, until the next one

create table graph_checkpoint (
  thread_id text not null check (thread_id <> ''),
  namespace text not null,
  checkpoint_id text not null check (checkpoint_id <> ''),
  parent_id text,
  run_id text,
  kind text not null,
  content blob not null,
  channels text not null check (json_type(channels) = 'object'),
  metadata text not null check (json_type(metadata) = 'object'),
  created_at integer not null,
  primary key (thread_id, namespace, checkpoint_id)
) strict;
create index graph_checkpoint_of_run on graph_checkpoint (run_id) where run_id is not null;

create table graph_value (
  thread_id text not null check (thread_id <> ''),
  namespace text not null,
  channel text not null,
  version text not null,
  kind text not null,
  content blob not null,
  primary key (thread_id, namespace, channel, version)
) strict;

create table graph_write (
  thread_id text not null check (thread_id <> ''),
  namespace text not null,
  checkpoint_id text not null,
  task_id text not null,
  place integer not null,
  channel text not null,
  task_path text not null,
  kind text not null,
  content blob not null,
  primary key (thread_id, namespace, checkpoint_id, task_id, place)
) strict;

-- schedules ---------------------------------------------------------------------------------------
--   who writes what
--     schedule, schedule_run     the slot runner, the reconciler and operators; never the execution service
--     execution_request          the execution service; its outcome by a trigger of job
--     charge_receipt             a trigger of job, for jobs that run under a grant

create table schedule (
  id text primary key,
  tenant_id text not null references tenant (id),
  name text not null check (name <> ''),
  owner_id text references user_account (id),
  grant_id text not null references execution_grant (id),
  graph_id text not null check (graph_id <> ''),
  input text not null check (json_valid(input) and json_type(input) = 'object'),
  cron text not null,
  timezone text not null,
  missed text not null check (missed in ('skip', 'latest', 'all')),
  most_missed integer not null check (most_missed > 0),
  overlap text not null check (overlap in ('forbid', 'allow', 'replace')),
  jitter_seconds real not null check (jitter_seconds >= 0),
  starts_at integer,
  ends_at integer,
  pause_after_failures integer check (pause_after_failures > 0),
  source text not null check (source in ('operator', 'code')),
  enabled integer not null check (enabled in (0, 1)),
  paused_by text,
  paused_at integer,
  pause_reason text,
  failures integer not null default 0 check (failures >= 0),
  next_run_at integer,
  last_run_at integer,
  slot_job_id text,
  zone_data text not null,
  created_by text,
  changed_by text,
  removed_at integer,
  removed_by text,
  created_at integer not null,
  updated_at integer not null,
  constraint paused_at_exactly_when_disabled check (enabled = (paused_at is null)),
  constraint next_run_at_only_when_enabled check (enabled or next_run_at is null),
  constraint removed_only_when_disabled check (removed_at is null or not enabled)
) strict;
-- A name can be used again when its schedule was removed; the row stays, for its slots.
create unique index schedule_name on schedule (tenant_id, name) where removed_at is null;
create index schedule_of_grant on schedule (grant_id);
create index schedule_of_owner on schedule (owner_id);
create index schedule_next_run on schedule (next_run_at) where enabled = 1;

create table schedule_run (
  id text primary key,
  schedule_id text not null references schedule (id),
  scheduled_for integer not null,
  local_time text not null,
  timezone text not null,
  origin text not null check (origin in ('cron', 'manual', 'backfill')),
  status text not null default 'pending' check (status in ('pending', 'running', 'success', 'error', 'skipped')),
  reason text,
  error_code text,
  error_message text,
  run_id text,
  trace_id text,
  job_id text,
  replaced_by text,
  begin_by integer,
  requested_by text,
  started_at integer,
  completed_at integer,
  created_at integer not null,
  unique (schedule_id, scheduled_for),
  constraint completed_at_exactly_when_ended check ((status in ('success', 'error', 'skipped')) = (completed_at is not null)),
  constraint started_at_only_when_it_ran check (started_at is null or status in ('running', 'success', 'error')),
  constraint error_code_exactly_in_error check ((status = 'error') = (error_code is not null)),
  constraint reason_exactly_when_skipped check ((status = 'skipped') = (reason is not null))
) strict;
create index schedule_run_open on schedule_run (schedule_id) where status = 'pending' or status = 'running';
create index schedule_run_ended on schedule_run (completed_at) where completed_at is not null;
create index schedule_run_of_run on schedule_run (run_id) where run_id is not null;

-- When the schedules were last reconciled, so that only one of many workers does it. One row.
create table schedule_reconciler (
  id integer primary key check (id = 1),
  reconciled_at integer not null
) strict;
insert into schedule_reconciler (id, reconciled_at) values (1, 0);

-- retention ---------------------------------------------------------------------------------------

create table retention_rule (
  id text primary key,
  tenant_id text,
  job_type text check (job_type <> ''),
  status text check (status in ('COMPLETED', 'FAILED', 'CANCELLED')),
  keep_seconds integer not null check (keep_seconds >= 0),
  created_by text,
  created_at integer not null,
  record text not null default 'job'
    check (record in ('job', 'worker', 'direct_reservation', 'schedule_run', 'execution_request', 'audit_log')),
  constraint only_rules_about_jobs_say_which
    check (record = 'job' or (tenant_id is null and job_type is null and status is null))
) strict;
-- null equals nothing, so values that cannot occur replace it.
create unique index retention_rule_one_of_each on retention_rule
  (coalesce(tenant_id, ''), coalesce(job_type, ''), coalesce(status, ''), record);

-- workers -----------------------------------------------------------------------------------------
-- An operator may ask a worker to drain: to finish its jobs, claim no more and stop. The worker reads the request at its next heartbeat.

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
  has_room integer not null default 0 check (has_room in (0, 1)),
  drain_asked_at integer,
  drain_asked_by text,
  drain_reason text
) strict;
create index worker_live on worker (lease_until) where status = 'LIVE';
create index worker_lost on worker (id) where status = 'LOST' and ended_at is null;

-- HTTP --------------------------------------------------------------------------------------------
-- What all servers of one database share: rate limits, and stored responses by idempotency key.

create table rate_limit (
  bucket text primary key check (bucket <> ''),
  hits integer not null check (hits >= 0),
  window_until integer not null
) strict;
create index rate_limit_expiry on rate_limit (window_until);

create table http_request (
  tenant_id text not null references tenant (id),
  caller text not null,
  key text not null check (length(key) between 1 and 255),
  request_hash text not null check (length(request_hash) = 64),
  seed text not null,
  status integer,
  body text,
  created_at integer not null,
  under_way_until integer not null,
  expires_at integer not null,
  primary key (tenant_id, caller, key),
  constraint answered_as_a_whole check ((status is null) = (body is null))
) strict;
create index http_request_expiry on http_request (expires_at);

-- whose a job is ----------------------------------------------------------------------------------
-- Who submitted a job: those who must not decide about it where a gate excludes self-approval.
--
--   by name       as a program gave it, "user:NAME" of whoever signed in or used their API key, "cli:NAME" of a login
--   by key        "key:PREFIX": the owner of the key, and who created it
--   by session    the user of the conversation that it came from
--   by grant      the owner of the grant that it runs under, "grant:ID", also when it is a fork of that work, and who requested it
--   submitters    the same of others: its parent's, the editor and trigger of its schedule, whoever ran it again
--
-- A service account stands for the admin who owns it. The casts keep one affinity in all parts, without which SQLite would read every job.

create view job_submitter as
select j.id as job_id, cast(coalesce(u.owner_id, u.id) as text) as user_account_id
from job j
join user_account u on u.name in (
  j.created_by,
  case
    when j.created_by like 'user:%' then substr(j.created_by, 6)
    when j.created_by like 'cli:%' then substr(j.created_by, 5)
  end)
union all
select j.id, cast(coalesce(u.owner_id, u.id) as text)
from job j
join api_key k on j.created_by like 'key:%' and k.prefix = substr(j.created_by, 5)
join user_account u on u.id = k.user_account_id
union all
select j.id, cast(coalesce(u.owner_id, u.id) as text)
from job j
join api_key k on j.created_by like 'key:%' and k.prefix = substr(j.created_by, 5)
join user_account u on u.name in (
  k.created_by,
  case
    when k.created_by like 'user:%' then substr(k.created_by, 6)
    when k.created_by like 'cli:%' then substr(k.created_by, 5)
  end)
union all
select j.id as job_id, cast(coalesce(u.owner_id, u.id) as text) as user_account_id
from job j
cross join json_each(j.submitters) e
join user_account u on u.name in (
  e.value,
  case
    when e.value like 'user:%' then substr(e.value, 6)
    when e.value like 'cli:%' then substr(e.value, 5)
  end)
union all
select j.id, cast(coalesce(u.owner_id, u.id) as text)
from job j
cross join json_each(j.submitters) e
join api_key k on e.value like 'key:%' and k.prefix = substr(e.value, 5)
join user_account u on u.id = k.user_account_id
union all
select j.id, cast(coalesce(u.owner_id, u.id) as text)
from job j
cross join json_each(j.submitters) e
join api_key k on e.value like 'key:%' and k.prefix = substr(e.value, 5)
join user_account u on u.name in (
  k.created_by,
  case
    when k.created_by like 'user:%' then substr(k.created_by, 6)
    when k.created_by like 'cli:%' then substr(k.created_by, 5)
  end)
union all
select j.id, s.user_account_id
from job j
join session s on s.id = j.session_id
union all
select j.id, s.user_account_id
from job j
cross join json_each(j.submitters) e
join session s on e.value like 'session:%' and s.id = substr(e.value, 9)
union all
select j.id, cast(coalesce(u.owner_id, u.id) as text)
from job j
join execution_request r on r.id = j.request_id
join execution_grant g on g.id = r.grant_id
join user_account u on u.id = g.user_account_id
union all
select j.id, cast(coalesce(u.owner_id, u.id) as text)
from job j
join execution_grant g on j.created_by like 'grant:%' and g.id = substr(j.created_by, 7)
join user_account u on u.id = g.user_account_id
union all
select j.id, cast(coalesce(u.owner_id, u.id) as text)
from job j
cross join json_each(j.submitters) e
join execution_grant g on e.value like 'grant:%' and g.id = substr(e.value, 7)
join user_account u on u.id = g.user_account_id
union all
select j.id, cast(coalesce(u.owner_id, u.id) as text)
from job j
join execution_request r on r.id = j.request_id and r.service_name like 'user:%'
join user_account u on u.name = substr(r.service_name, 6);

-- what the database refuses: jobs -----------------------------------------------------------------
-- `raise()` takes no expressions before SQLite 3.47, so each refused pair of states has its own text.
-- `replace` deletes a row without running the delete triggers, so permanent rows refuse an insert with an existing key.

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

create trigger job_no_replace before insert on job
when exists (select 1 from job where id = new.id or retry_of = new.retry_of)
begin
  select raise(abort, 'There is such a job already; a job is never replaced.');
end;

create trigger job_known before insert on job
when not exists (select 1 from tenant where id = new.tenant_id) or not exists (select 1 from agent where id = new.agent_id)
begin
  select raise(abort, 'A job needs a tenant and an agent that there are.');
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

-- The plane's own statements always increase the revision; a statement that does not is raw SQL.
create trigger job_raw_update before update of status on job
when new.status <> old.status and new.revision = old.revision and new.updated_at = old.updated_at
begin
  select raise(abort, 'Set updated_at too (microseconds since 1970, UTC), and finished_at when the job ends.');
end;

-- What a job was submitted with, and how it ended, cannot be rewritten.
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

-- Only a waiting job has a place in the queue that can be changed.
create trigger job_order_fixed before update of priority, position on job
when (new.priority <> old.priority or new.position <> old.position) and old.status <> 'PENDING' and old.status <> 'RETRY'
begin
  select raise(abort, 'Only a job that waits can change its priority or position.');
end;

-- what the database refuses: runs, history and blobs ----------------------------------------------

create trigger run_no_replace before insert on job_run
when exists (select 1 from job_run where job_id = new.job_id and id = new.id)
begin
  select raise(abort, 'There is such a run already; a run is never replaced.');
end;
create trigger run_no_insert before insert on job_run
when not exists (
  select 1 from job
  where id = new.job_id
    and (run_id = new.id
      or (new.status = 'SKIPPED' and status = 'CANCELLED' and attempt = 0 and json_extract(note, '$.skipped_as') = new.id)))
begin
  select raise(abort, 'A run opens only with its job: set job.status to RUNNING and job.run_id to its id.');
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
create trigger run_no_delete before delete on job_run
when exists (select 1 from job where id = old.job_id)
begin
  select raise(abort, 'Rows of job_run go only with their whole job.');
end;

create trigger history_no_replace before insert on job_history
when exists (select 1 from job_history where job_id = new.job_id and revision = new.revision)
begin
  select raise(abort, 'Rows of job_history are never changed or deleted.');
end;
create trigger history_of_a_change before insert on job_history
when not exists (select 1 from job where id = new.job_id and revision = new.revision)
begin
  select raise(abort, 'Rows of job_history are written by the database only.');
end;
-- Except for erasure: the actor is replaced by a pseudonym, and metadata is removed.
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

create trigger blob_no_update before update on job_blob
begin
  select raise(abort, 'Rows of job_blob are never changed or deleted.');
end;
create trigger blob_no_delete before delete on job_blob
when exists (select 1 from job where id = old.job_id)
begin
  select raise(abort, 'Rows of job_blob go only with their whole job.');
end;
create trigger blob_no_replace before insert on job_blob
when exists (select 1 from job_blob where job_id = new.job_id and sha256 = new.sha256)
  or (new.seq is not null and exists (select 1 from job_blob where job_id = new.job_id and seq = new.seq))
begin
  select raise(abort, 'Rows of job_blob are never changed or deleted.');
end;

-- what the database refuses: the audit log --------------------------------------------------------

create trigger audit_no_replace before insert on audit_log
when exists (select 1 from audit_log where seq = new.seq)
begin
  select raise(abort, 'Rows of audit_log are never changed or deleted.');
end;
create trigger audit_details_are_json before insert on audit_log
when json_valid(new.details) = 0
begin
  select raise(abort, 'The details of an audit entry must be JSON.');
end;

-- Except for erasure: texts may be removed and the actor replaced by a pseudonym; digests of the removed texts stay (docs/decisions/0040).
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

create trigger audit_no_delete before delete on audit_log
when not exists (select 1 from audit_pruned where last_seq >= old.seq)
begin
  select raise(abort, 'Rows of audit_log are never changed or deleted.');
end;

create trigger seal_no_update before update on audit_seal
begin
  select raise(abort, 'Rows of audit_seal are never changed or deleted.');
end;
create trigger seal_no_delete before delete on audit_seal
begin
  select raise(abort, 'Rows of audit_seal are never changed or deleted.');
end;
create trigger seal_no_replace before insert on audit_seal
when exists (select 1 from audit_seal where number = new.number)
begin
  select raise(abort, 'Rows of audit_seal are never changed or deleted.');
end;

create trigger audit_pruned_moves before update on audit_pruned
when new.id <> 1 or new.seal <= old.seal
  or not exists (
    select 1 from audit_seal s join retention_rule r on r.record = 'audit_log'
    where s.number = new.seal and s.digest = new.digest and s.last_seq = new.last_seq
      and s.sealed_at + r.keep_seconds * 1000000 <= new.pruned_at)
  or not exists (
    select 1 from audit_log where object_id = new.seal || ':' || new.digest and action = 'AUDIT_LOG_PRUNED')
begin
  select raise(abort, 'The mark in audit_pruned moves only to a seal that a rule no longer keeps, and when that is recorded.');
end;
create trigger audit_pruned_no_delete before delete on audit_pruned
begin
  select raise(abort, 'The row of audit_pruned is never deleted.');
end;
create trigger audit_pruned_no_replace before insert on audit_pruned
begin
  select raise(abort, 'There is one row of audit_pruned; it is never replaced.');
end;

-- what the database refuses: approvals ------------------------------------------------------------

create trigger approval_no_loose_insert before insert on approval_request
when new.outcome is not null or not exists (select 1 from job where id = new.job_id and approval_token = new.token_hash)
begin
  select raise(abort, 'An approval opens only with its job: set job.status to WAITING_FOR_APPROVAL and job.approval_token to its hash.');
end;
create trigger approval_no_replace before insert on approval_request
when exists (select 1 from approval_request where id = new.id or token_hash = new.token_hash)
begin
  select raise(abort, 'There is such an approval already; an approval is never replaced.');
end;

create trigger approval_as_shown before update on approval_request
when (new.id, new.job_id, new.run_id, new.tenant_id, new.gate_key, new.token_hash, new.requested_by_agent_id, new.designated,
    new.approvers, new.escalate_to, new.action_summary, new.action_details, new.digest, new.quorum, new.no_self_approval,
    new.editable, new.on_expiry, new.default_value, new.on_denial, new.supersedes, new.ttl_seconds, new.remind_after_seconds,
    new.expires_at, new.created_at)
  is not
  (old.id, old.job_id, old.run_id, old.tenant_id, old.gate_key, old.token_hash, old.requested_by_agent_id, old.designated,
    old.approvers, old.escalate_to, old.action_summary, old.action_details, old.digest, old.quorum, old.no_self_approval,
    old.editable, old.on_expiry, old.default_value, old.on_denial, old.supersedes, old.ttl_seconds, old.remind_after_seconds,
    old.expires_at, old.created_at)
begin
  select raise(abort, 'What an approval asks never changes.');
end;

create trigger approval_closed_for_good before update on approval_request
when old.outcome is not null and
  (new.decision, new.decided_by, new.reason, new.edited_details, new.used_at, new.outcome, new.closed_at, new.votes,
    new.remind_at, new.reminders, new.escalate_at, new.escalated_at)
  is not
  (old.decision, old.decided_by, old.reason, old.edited_details, old.used_at, old.outcome, old.closed_at, old.votes,
    old.remind_at, old.reminders, old.escalate_at, old.escalated_at)
begin
  select raise(abort, 'An approval that is closed stays as it is.');
end;

create trigger approval_closes_with_job before update of outcome on approval_request
when old.outcome is null and new.outcome is not null
  and exists (select 1 from job where id = old.job_id and approval_token = old.token_hash)
begin
  select raise(abort, 'An approval closes only with its job: decide it, or cancel the job.');
end;

create trigger approval_no_delete before delete on approval_request
when exists (select 1 from job where id = old.job_id)
begin
  select raise(abort, 'Rows of approval_request go only with their whole job.');
end;

create trigger vote_in_time before insert on approval_vote
when not exists (select 1 from approval_request where id = new.approval_request_id and outcome is null)
begin
  select raise(abort, 'There is no such open approval.');
end;
create trigger vote_no_replace before insert on approval_vote
when exists (
  select 1 from approval_vote where approval_request_id = new.approval_request_id and user_account_id = new.user_account_id)
begin
  select raise(abort, 'Rows of approval_vote are never changed or deleted.');
end;
create trigger vote_no_update before update on approval_vote
begin
  select raise(abort, 'Rows of approval_vote are never changed or deleted.');
end;
create trigger vote_no_delete before delete on approval_vote
when exists (select 1 from approval_request where id = old.approval_request_id)
begin
  select raise(abort, 'Votes go only with their whole approval.');
end;

-- what the database refuses: grants and schedules -------------------------------------------------

-- The request, and how it ended, cannot be rewritten.
create trigger request_as_asked before update of id, tenant_id, idempotency_key, request_hash, graph_id, grant_id, billing_account_id, virtual_key_id, run_id, trace_id, created_at on execution_request
when new.id is not old.id
  or new.tenant_id is not old.tenant_id
  or new.idempotency_key is not old.idempotency_key
  or new.request_hash is not old.request_hash
  or new.graph_id is not old.graph_id
  or new.grant_id is not old.grant_id
  or new.billing_account_id is not old.billing_account_id
  or new.virtual_key_id is not old.virtual_key_id
  or new.run_id is not old.run_id
  or new.trace_id is not old.trace_id
  or new.created_at is not old.created_at
begin
  select raise(abort, 'Rows of execution_request are never changed or deleted.');
end;
create trigger request_ended_so before update of outcome, outcome_message, finished_at on execution_request
when old.finished_at is not null and (new.outcome is not old.outcome
  or new.outcome_message is not old.outcome_message
  or new.finished_at is not old.finished_at)
begin
  select raise(abort, 'Rows of execution_request are never changed or deleted.');
end;

-- Nor which slot it was, and how it ended.
create trigger slot_as_planned before update of id, schedule_id, scheduled_for, local_time, timezone, origin, created_at on schedule_run
when new.id is not old.id
  or new.schedule_id is not old.schedule_id
  or new.scheduled_for is not old.scheduled_for
  or new.local_time is not old.local_time
  or new.timezone is not old.timezone
  or (new.origin is not old.origin and not (old.status = 'skipped' and new.status = 'pending' and new.origin = 'backfill'))
  or new.created_at is not old.created_at
begin
  select raise(abort, 'Rows of schedule_run are never changed or deleted.');
end;
-- A skipped slot may be requested again; the outcome of other slots is final.
create trigger slot_ended_so before update of status, reason, error_code, error_message, run_id, trace_id, job_id, replaced_by, begin_by, started_at, completed_at on schedule_run
when old.completed_at is not null and not (old.status = 'skipped' and new.status = 'pending') and (new.status is not old.status
  or new.reason is not old.reason
  or new.error_code is not old.error_code
  or new.error_message is not old.error_message
  or new.run_id is not old.run_id
  or new.trace_id is not old.trace_id
  or new.job_id is not old.job_id
  or new.replaced_by is not old.replaced_by
  or new.begin_by is not old.begin_by
  or new.started_at is not old.started_at
  or new.completed_at is not old.completed_at)
begin
  select raise(abort, 'Rows of schedule_run are never changed or deleted.');
end;

-- what follows when a job is submitted ------------------------------------------------------------
-- SQLite runs the last created trigger of an event first: read this section and the next ones from the bottom up.

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

-- A deadline given as a length counts from the submission. A child's deadline is never later than that of its running parent.
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

-- Cancels a child that was submitted after its parent had ended. A retry that an operator requested is meant to run.
create trigger job_born_late after insert on job
when new.cancel_with_parent and (new.retry_of is null or new.retry_count > 0)
  and exists (select 1 from job where id = new.parent_id and status in ('FAILED', 'CANCELLED'))
begin
  insert into job
    (id, tenant_id, agent_id, job_type, queue, position, payload, max_retries, worker_job_id, created_by, cause, actor,
     created_at, queued_at, updated_at)
  select
    printf('%08x-%04x-7%s-8%s-%s', (new.updated_at / 1000) >> 16, (new.updated_at / 1000) & 65535,
      substr(lower(hex(randomblob(2))), 2), substr(lower(hex(randomblob(2))), 2), lower(hex(randomblob(6)))),
    new.tenant_id, a.id, a.job_type, 'cortex', (select value + 100 from counter where name = 'position'),
    json_object('parent_id', new.parent_id), coalesce(json_extract(a.skill_config, '$.retry.max_retries'), 3),
    (select value + 1 from counter where name = 'queue_entry'), a.job_type, 'submit', a.job_type,
    new.updated_at, new.updated_at, new.updated_at
  from agent a
  where a.job_type = 'cortex.children';
end;

-- what follows when a job changes -----------------------------------------------------------------
-- SQLite runs the last created trigger first, so the statements below stand in the reverse of this order:
--
--   job_left_unclaimed            before the change: the entry of an approved job that no worker has taken over is removed
--   job_chained                   FAILED, and retried by a new job: the successor
--   job_request_ended, job_used   runs under a grant: the outcome of the request; receipts of what an attempt used
--   job_taken_over                a worker took over an approved job: its run, its entry
--   job_went_on, job_started      RUNNING: the run opens; the entry is removed, or added for an approved job
--   job_left_approval             the job no longer waits for approval: its request closes
--   job_held                      the code does not fit the record: job_hold
--   parent_ended_undone           FAILED or CANCELLED with children that end with it: a job that cancels them
--   child_ended                   the parent that waits for it becomes ready
--   job_deadline_over             ended: its deadline is removed
--   job_asked_to_end              a cancellation was requested: the deadline of its cleanup, its entry, audit
--   job_cost_grew                 totals, and budgets that are spent
--   delivery_failed               a delivery FAILED: when it is tried again
--   job_held_for_webhooks, job_ended_for_webhooks      deliveries
--   job_skipped, member_failed, member_ended           the run of a skipped member; the failure; a look at the group
--   job_released                  a reservation ends
--   job_reordered                 priority or position changed: its entry
--   job_failed, job_audited       audit
--   job_went_back_to_the_queue    RETRY: a new entry
--   job_stopped                   no longer RUNNING: the run closes
--   job_ended_in_the_queue        ended without running: the entry is removed
--   job_changed_by_raw_sql        the revision is counted for statements that did not
--   job_changed                   history
--   job_deadline_moved            the deadline changed
--   job_asking                    the count of jobs that wait for approval
--   job_touched                   raw SQL changed a field: updated_at

-- updated_at for fields that raw SQL changes without increasing the revision.
create trigger job_touched after update of
  queue, priority, position, retry_policy, max_retries, run_at, timeout_seconds, deadline_at, job_key, serial_key, created_by, tags on job
when new.revision = old.revision and new.updated_at = old.updated_at
begin
  update job set updated_at = old.updated_at + 1 where id = new.id;
end;

create trigger job_asking after update of status on job
when (new.status = 'WAITING_FOR_APPROVAL') <> (old.status = 'WAITING_FOR_APPROVAL')
begin
  insert into entry_count (scope, name, state, entries)
  values ('asking', new.queue, 'held', iif(new.status = 'WAITING_FOR_APPROVAL', 1, -1))
    on conflict (scope, name, state) do update set entries = entries + excluded.entries;
end;

create trigger job_deadline_moved after update of deadline_at on job
when new.deadline_at is not old.deadline_at and new.finished_at is null
begin
  delete from job_deadline where job_id = new.id;
  insert into job_deadline (job_id, at) select new.id, new.deadline_at where new.deadline_at is not null;
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

-- Final failures: no retries are left, or none were allowed.
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

create trigger job_reordered after update of priority, position on job
when new.priority <> old.priority or new.position <> old.position
begin
  update queue_entry set rank = -new.priority, position = new.position where job_id = new.id;
  insert into key_to_settle select new.tenant_id, new.serial_key where new.serial_key is not null;
end;

-- A reservation ends with the run that it was made for, or with its job.
create trigger job_released after update of status on job
when new.status <> 'RUNNING' and old.status <> new.status
  and exists (select 1 from direct_reservation where status = 'ACTIVE' and job_id = new.id)
begin
  insert into audit_log (at, actor, action, object_type, object_id, details)
  select new.updated_at, reserved_by, 'RESERVATION_RELEASED', 'reservation', id, json_object('queue', queue, 'job_id', job_id)
  from direct_reservation where job_id = new.id and status = 'ACTIVE';
  update direct_reservation set status = 'RELEASED', ended_at = new.updated_at where job_id = new.id and status = 'ACTIVE';
end;

-- The end of a member adds a job that advances its group, unless one is waiting already. Members that the group itself ended need none.
create trigger member_ended after update of status on job
when new.group_id is not null and (new.status = 'COMPLETED' or new.status = 'FAILED' or new.status = 'CANCELLED')
  and new.status <> old.status and (new.revision = old.revision or new.cause <> 'group')
  and not exists (
    select 1 from queue_entry
    where tenant_id = new.tenant_id and serial_key = new.group_id and job_type = 'cortex.group' and state in ('ready', 'blocked'))
begin
  insert into job
    (id, tenant_id, agent_id, job_type, queue, payload, position, max_retries, serial_key, worker_job_id, cause, actor,
     created_at, queued_at, updated_at)
  select
    substr(printf('%012x', new.updated_at / 1000), 1, 8) || '-' || substr(printf('%012x', new.updated_at / 1000), 9)
      || '-7' || substr(lower(hex(randomblob(2))), 2) || '-' || substr('89ab', 1 + abs(random() % 4), 1)
      || substr(lower(hex(randomblob(2))), 2) || '-' || lower(hex(randomblob(6))),
    g.tenant_id, a.id, a.job_type, 'cortex', json_object('group_id', g.id),
    (select value + 100 from counter where name = 'position'),
    coalesce(json_extract(a.skill_config, '$.retry.max_retries'), 3), g.id,
    (select value + 1 from counter where name = 'queue_entry'), 'group', 'group', new.updated_at, new.updated_at, new.updated_at
  from job_group g, agent a
  where g.id = new.group_id and a.job_type = 'cortex.group';
end;

create trigger member_failed after update of status on job
when new.group_id is not null and new.status = 'FAILED' and old.status <> 'FAILED'
  and json_extract(new.note, '$.retry_as') is null
begin
  insert or ignore into group_failure (job_id, group_id)
  select new.id, id from job_group where id = new.group_id and on_failure <> 'continue' and stopping = 0;
end;

-- A skipped job has a run too, which never began.
create trigger job_skipped after update of status on job
when new.status = 'CANCELLED' and old.status = 'PENDING' and new.revision <> old.revision
  and json_extract(new.note, '$.skipped_as') is not null
begin
  insert into job_run
    (id, job_id, attempt, tenant_id, queue, job_type, serial_key, template_id, params_snapshot, status, started_at, finished_at,
     closed_by)
  values (json_extract(new.note, '$.skipped_as'), new.id, 0, new.tenant_id, new.queue, new.job_type, new.serial_key,
    new.template_id, new.payload, 'SKIPPED', new.updated_at, new.updated_at, coalesce(new.actor, new.cause));
end;

-- A job ends once, so the id of its event is derived from the job's id: the same for each endpoint and each attempt.
-- Long outputs are omitted from the message; the receiver can fetch the job.
-- A job that FAILED because the outcome of a tool call is unknown causes a job.uncertain event too.
create trigger job_ended_for_webhooks after update of status on job
when new.finished_at is not null and old.finished_at is null and new.queue <> 'cortex'
  and exists (select 1 from webhook_endpoint where tenant_id = new.tenant_id and enabled = 1)
begin
  insert into job
    (id, tenant_id, agent_id, job_type, queue, position, payload, max_retries, worker_job_id, created_by, cause, actor,
     created_at, queued_at, updated_at)
  select
    printf('%08x-%04x-7%s-8%s-%s', (new.updated_at / 1000) >> 16, (new.updated_at / 1000) & 65535,
      substr(lower(hex(randomblob(2))), 2), substr(lower(hex(randomblob(2))), 2), lower(hex(randomblob(6)))),
    new.tenant_id, a.id, a.job_type, 'cortex',
    (select value from counter where name = 'position') + 100 * row_number() over (order by e.id, t.type),
    json_object(
      'endpoint_id', e.id,
      'event_id', 'evt_' || replace(new.id, '-', '') || t.suffix,
      'event', json_object(
        'type', t.type,
        'timestamp', strftime('%Y-%m-%dT%H:%M:%S', new.finished_at / 1000000, 'unixepoch')
          || iif(new.finished_at % 1000000, printf('.%06d', new.finished_at % 1000000), '') || '+00:00',
        'data', json_object(
          'job_id', new.id,
          'agent', new.job_type,
          'queue', new.queue,
          'status', new.status,
          'attempt', new.attempt,
          'tags', json(new.tags),
          'error_message', new.error_message,
          'output', json(iif(length(new.output) <= 16384, new.output, 'null')),
          'output_omitted', json(iif(length(new.output) > 16384 or new.output_blob is not null, 'true', 'false')),
          'retry_of', new.retry_of,
          'retried_as', iif(new.revision = old.revision, null, json_extract(new.note, '$.retry_as'))))),
    coalesce(json_extract(a.skill_config, '$.retry.max_retries'), 3),
    (select value from counter where name = 'queue_entry') + row_number() over (order by e.id, t.type),
    a.job_type, 'submit', a.job_type, new.updated_at, new.updated_at, new.updated_at
  from webhook_endpoint e
  join agent a on a.job_type = 'cortex.webhook'
  cross join (
    select 'job.' || lower(new.status) as type, '' as suffix
    union all
    select 'job.uncertain', '_uncertain' where new.status = 'FAILED' and new.error ->> 'type' = 'ToolUncertain'
  ) t
  where e.tenant_id = new.tenant_id
    and e.enabled = 1
    and exists (
      select 1 from json_each(e.events) f
      where f.value = '*' or f.value = 'job.*' or f.value = t.type);
end;

-- A job may be held more than once; the revision makes the id of the event unique.
create trigger job_held_for_webhooks after update of status on job
when new.status = 'RETRY' and old.status = 'RUNNING' and new.wait_reason = 'code_changed' and new.note ->> 'code' is not null
  and new.note ->> 'handed_back' is null and new.note ->> 'again' is null and new.queue <> 'cortex'
  and exists (select 1 from webhook_endpoint where tenant_id = new.tenant_id and enabled = 1)
begin
  insert into job
    (id, tenant_id, agent_id, job_type, queue, position, payload, max_retries, worker_job_id, created_by, cause, actor,
     created_at, queued_at, updated_at)
  select
    printf('%08x-%04x-7%s-8%s-%s', (new.updated_at / 1000) >> 16, (new.updated_at / 1000) & 65535,
      substr(lower(hex(randomblob(2))), 2), substr(lower(hex(randomblob(2))), 2), lower(hex(randomblob(6)))),
    new.tenant_id, a.id, a.job_type, 'cortex',
    (select value from counter where name = 'position') + 100 * row_number() over (order by e.id),
    json_object(
      'endpoint_id', e.id,
      'event_id', 'evt_' || replace(new.id, '-', '') || '_held_' || new.revision,
      'event', json_object(
        'type', 'job.held',
        'timestamp', strftime('%Y-%m-%dT%H:%M:%S', new.updated_at / 1000000, 'unixepoch')
          || iif(new.updated_at % 1000000, printf('.%06d', new.updated_at % 1000000), '') || '+00:00',
        'data', json_object(
          'job_id', new.id,
          'agent', new.job_type,
          'queue', new.queue,
          'status', new.status,
          'attempt', new.attempt,
          'tags', json(new.tags),
          'wait_reason', new.wait_reason,
          'step', new.error ->> 'step',
          'error_message', new.error ->> 'message'))),
    coalesce(json_extract(a.skill_config, '$.retry.max_retries'), 3),
    (select value from counter where name = 'queue_entry') + row_number() over (order by e.id),
    a.job_type, 'submit', a.job_type, new.updated_at, new.updated_at, new.updated_at
  from webhook_endpoint e
  join agent a on a.job_type = 'cortex.webhook'
  where e.tenant_id = new.tenant_id
    and e.enabled = 1
    and exists (
      select 1 from json_each(e.events) f
      where f.value = '*' or f.value = 'job.*' or f.value = 'job.held');
end;

create trigger delivery_failed after update of status on job
when new.status = 'FAILED' and old.status <> 'FAILED' and new.queue = 'cortex' and new.job_type in ('cortex.notify', 'cortex.webhook')
begin
  insert into failed_delivery (job_id, retry_at, give_up_at)
  select new.id, new.updated_at + max(300000000, new.updated_at - f.created_at), f.created_at + 604800000000
  from job f
  where f.id = coalesce(new.effect_root, new.id)
    and new.updated_at < f.created_at + 604800000000;
end;

create trigger job_cost_grew after update of cost_cents on job
when new.cost_cents > old.cost_cents
begin
  insert into cost_total (tenant_id, job_type, cents)
  values (new.tenant_id, new.job_type, new.cost_cents - old.cost_cents)
  on conflict (tenant_id, job_type) do update set cents = cents + excluded.cents;

  insert into budget_to_check (scope, name, at)
  select scope, name, new.updated_at from control
  where on_exhausted = 'pause' and not paused
    and ((scope = 'agent' and name = new.job_type) or (scope = 'tenant' and name = new.tenant_id));
end;

-- A job that is asked to end while it has an open cleanup scope runs once more; if it waits, it becomes ready at once. It is ended when the
-- time for its cleanup is over.
create trigger job_asked_to_end after update of cancel_requested_at on job
when new.cancel_requested_at is not null and old.cancel_requested_at is null
begin
  insert into job_deadline (job_id, at)
  values (new.id, new.cancel_requested_at + cast(round(1000000 * new.cleanup_seconds) as integer))
  on conflict (job_id) do update
  set at = iif(at <= new.cancel_requested_at, excluded.at, min(at, excluded.at));
  update queue_entry
  set due_at = new.cancel_requested_at, state = iif(serial_key is null, 'ready', 'blocked')
  where job_id = new.id and state = 'later';
  insert into audit_log (at, tenant_id, actor, action, object_type, object_id, reason)
  values (new.cancel_requested_at, new.tenant_id, new.cancel_request ->> 'actor', 'JOB_CANCEL_REQUESTED', 'job', new.id,
    new.cancel_request ->> 'reason');
end;

create trigger job_deadline_over after update of status on job
when (new.deadline_at is not null or new.cancel_requested_at is not null)
  and new.finished_at is not null and old.finished_at is null
begin
  delete from job_deadline where job_id = new.id;
end;

create trigger child_ended after update of status on job
when new.parent_id is not null and new.finished_at is not null and old.finished_at is null
  and exists (select 1 from job where id = new.parent_id and status = 'RETRY' and wait_reason = 'child')
begin
  update queue_entry
  set due_at = new.updated_at, state = iif(serial_key is null, 'ready', 'blocked')
  where job_id = new.parent_id and state = 'later';
  update job
  set next_retry_at = max(new.updated_at, updated_at), updated_at = max(new.updated_at, updated_at)
  where id = new.parent_id and next_retry_at > new.updated_at;
end;

create trigger parent_ended_undone after update of status on job
when (new.status = 'FAILED' or new.status = 'CANCELLED') and old.finished_at is null
  and exists (select 1 from job where parent_id = new.id and cancel_with_parent and finished_at is null)
begin
  insert into job
    (id, tenant_id, agent_id, job_type, queue, position, payload, max_retries, worker_job_id, created_by, cause, actor,
     created_at, queued_at, updated_at)
  select
    printf('%08x-%04x-7%s-8%s-%s', (new.updated_at / 1000) >> 16, (new.updated_at / 1000) & 65535,
      substr(lower(hex(randomblob(2))), 2), substr(lower(hex(randomblob(2))), 2), lower(hex(randomblob(6)))),
    new.tenant_id, a.id, a.job_type, 'cortex', (select value + 100 from counter where name = 'position'),
    json_object('parent_id', new.id), coalesce(json_extract(a.skill_config, '$.retry.max_retries'), 3),
    (select value + 1 from counter where name = 'queue_entry'), a.job_type, 'submit', a.job_type,
    new.updated_at, new.updated_at, new.updated_at
  from agent a
  where a.job_type = 'cortex.children';
end;

create trigger job_held after update of status on job
when new.status = 'RETRY' and old.status = 'RUNNING' and new.wait_reason = 'code_changed' and new.note ->> 'code' is not null
begin
  insert into job_hold (job_id, job_type, codes, error, held_at)
  values (new.id, new.job_type, json_array(new.note ->> 'code'), new.error, new.updated_at)
  on conflict (job_id) do update
  set codes = iif(
      exists (select 1 from json_each(codes) c where c.value = new.note ->> 'code'),
      codes, json_insert(codes, '$[#]', new.note ->> 'code')),
    offered = iif(new.note ->> 'handed_back' is null, '[]', offered),
    handed_back = iif(new.note ->> 'handed_back' is null, 0, handed_back + 1),
    error = excluded.error,
    held_at = iif(new.note ->> 'handed_back' is null, excluded.held_at, held_at);
end;

create trigger job_left_approval after update of status on job
when old.status = 'WAITING_FOR_APPROVAL' and new.status <> old.status
begin
  update approval_request
  set decision = iif(new.revision <> old.revision and new.note ->> 'approval_request_id' is id, new.note ->> 'decision', null),
    decided_by = iif(new.revision <> old.revision and new.note ->> 'approval_request_id' is id, new.note ->> 'decided_by', null),
    reason = (
      select v.reason from approval_vote v
      where v.approval_request_id = approval_request.id and v.user_account_id = new.note ->> 'decided_by'),
    edited_details = (
      select v.edited_details from approval_vote v
      where v.approval_request_id = approval_request.id and v.user_account_id = new.note ->> 'decided_by'),
    used_at = iif(
      new.revision <> old.revision and new.note ->> 'approval_request_id' is id
        and new.note ->> 'decision' in ('approved', 'denied'), new.updated_at, null),
    outcome = iif(
      new.revision <> old.revision and new.note ->> 'approval_request_id' is id,
      coalesce(new.note ->> 'outcome', 'cancelled'), 'cancelled'),
    closed_at = new.updated_at,
    remind_at = null,
    escalate_at = null
  where job_id = new.id and token_hash = old.approval_token and outcome is null;
end;

-- The run opens before the entry is removed, so that a transaction that settles the key in between finds the key in use.
create trigger job_started after update of status on job
when new.status = 'RUNNING' and (old.status = 'PENDING' or old.status = 'RETRY')
begin
  insert into job_run
    (id, job_id, attempt, worker_id, tenant_id, queue, job_type, serial_key, template_id, params_snapshot,
     started_at)
  values (new.run_id, new.id, new.attempt, new.worker_id, new.tenant_id, new.queue, new.job_type,
    new.serial_key, new.template_id, new.payload, new.updated_at);
  delete from queue_entry where job_id = new.id;
end;

-- An approved job gets a run without a worker, and a queue entry, so that a worker takes it over.
create trigger job_went_on after update of status on job
when new.status = 'RUNNING' and old.status = 'WAITING_FOR_APPROVAL'
begin
  insert into job_run
    (id, job_id, attempt, worker_id, tenant_id, queue, job_type, serial_key, template_id, params_snapshot,
     started_at)
  values (new.run_id, new.id, new.attempt, new.worker_id, new.tenant_id, new.queue, new.job_type,
    new.serial_key, new.template_id, new.payload, new.updated_at);
  update counter set value = value + 1 where name = 'queue_entry' and new.worker_id is null;
  update job set worker_job_id = (select value from counter where name = 'queue_entry')
  where id = new.id and new.worker_id is null;
  insert into queue_entry
    (id, job_id, tenant_id, queue, job_type, state, rank, position, created_at, due_at, serial_key, by_tenant)
  select
    (select value from counter where name = 'queue_entry'),
    new.id, new.tenant_id, new.queue, new.job_type, iif(new.serial_key is null, 'ready', 'blocked'),
    -new.priority, new.position, new.created_at, new.updated_at, new.serial_key,
    new.queue <> 'cortex' and exists (
      select 1 from control
      where (scope = 'tenant' and name = new.tenant_id and (paused or max_running is not null))
        or (scope = 'queue' and name = new.queue and fair_share))
  where new.worker_id is null;
end;

create trigger job_taken_over after update of worker_id on job
when old.status = 'RUNNING' and new.status = 'RUNNING' and old.worker_id is null and new.worker_id is not null
begin
  update job_run
  set worker_id = new.worker_id
  where job_id = new.id and id = new.run_id and status = 'RUNNING';
  delete from queue_entry where job_id = new.id;
end;

-- The job was approved and no worker has taken it over: its entry is removed before anything else follows.
create trigger job_left_unclaimed before update of status on job
when old.status = 'RUNNING' and old.worker_id is null and new.status <> 'RUNNING'
begin
  delete from queue_entry where job_id = old.id;
end;

-- What an attempt used since the last write. Costs and tokens are counted once, because each write is applied once.
create trigger job_used after update of cost_cents, checkpoint on job
when new.request_id is not null and (new.cost_cents > old.cost_cents or new.checkpoint_id is not old.checkpoint_id)
begin
  insert into charge_receipt
    (run_id, attempt, unit, quantity, request_id, billing_account_id, grant_id, virtual_key_id, created_at, updated_at)
  select new.id, new.attempt, used.unit, used.quantity, r.id, r.billing_account_id, r.grant_id, r.virtual_key_id,
    new.updated_at, new.updated_at
  from (
    select 'cents' as unit, new.cost_cents - old.cost_cents as quantity
    union all
    select 'prompt_tokens',
      coalesce(json_extract(new.checkpoint, '$.memory_context.token_usage.prompt_tokens'), 0)
      - coalesce(json_extract(old.checkpoint, '$.memory_context.token_usage.prompt_tokens'), 0)
    union all
    select 'completion_tokens',
      coalesce(json_extract(new.checkpoint, '$.memory_context.token_usage.completion_tokens'), 0)
      - coalesce(json_extract(old.checkpoint, '$.memory_context.token_usage.completion_tokens'), 0)) used
  join execution_request r on r.id = new.request_id
  where used.quantity > 0
  on conflict (run_id, attempt, unit) do update
  set quantity = quantity + excluded.quantity, updated_at = excluded.updated_at;
end;

-- The outcome of the run itself, not of its children, nor of a later run that an operator started.
create trigger job_request_ended after update of status on job
when new.request_id is not null and new.finished_at is not null and old.finished_at is null
  and (new.status <> 'FAILED' or new.revision = old.revision or json_extract(new.note, '$.retry_as') is null)
begin
  update execution_request
  set outcome = new.status, outcome_message = new.error_message, finished_at = new.finished_at
  where id = new.request_id and run_id = coalesce(new.effect_root, new.id) and finished_at is null;
end;

-- Creates the retry of a job that FAILED and whose policy is `chain`.
create trigger job_chained after update of status on job
when new.status = 'FAILED' and old.status <> 'FAILED' and new.revision <> old.revision
  and json_extract(new.note, '$.retry_as') is not null
begin
  insert into successor_to_add (kind, job_id, id, actor, at)
  values ('chain', new.id, json_extract(new.note, '$.retry_as'), new.actor, new.updated_at);
end;

-- what follows when a job is deleted --------------------------------------------------------------
-- Also for clients that do not enable foreign keys.

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

create trigger job_left_nothing after delete on job
begin
  delete from job_blob where job_id = old.id;
  delete from job_event where job_id = old.id;
end;

create trigger job_left_no_hold after delete on job
begin
  delete from job_hold where job_id = old.id;
end;

create trigger job_left_no_approvals after delete on job
begin
  delete from approval_request where job_id = old.id;
end;
create trigger approval_left_nothing after delete on approval_request
begin
  delete from approval_vote where approval_request_id = old.id;
  delete from approval_token where approval_request_id = old.id;
  delete from approval_approver where approval_request_id = old.id;
  delete from approval_notice where approval_request_id = old.id;
end;

create trigger job_left_no_graph after delete on job
begin
  delete from graph_write where thread_id = old.id;
  delete from graph_value where thread_id = old.id;
  delete from graph_checkpoint where thread_id = old.id;
end;

-- what follows when a queue entry or a run changes ------------------------------------------------

-- A key is settled whenever one of its entries is added, becomes ready or is removed, and when its run ends.
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

create trigger keyed_entry_let_go after update of state on queue_entry when old.state = 'held' and new.state = 'blocked'
begin
  insert into key_to_settle values (new.tenant_id, new.serial_key);
end;

-- A sequential group starts no member while another is in progress. A chained retry takes the place of its predecessor.
-- The key may be settled before or after this trigger: the trigger settles it again.
create trigger member_came after insert on queue_entry
when exists (select 1 from job_group) and exists (
  select 1 from job j join job_group g on g.id = j.group_id
  where j.id = new.job_id and j.status = 'PENDING' and j.retry_count = 0 and g.mode = 'sequential'
    and exists (
      select 1 from job other
      where other.group_id = j.group_id and other.id <> j.id
        and other.status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
        and not exists (select 1 from queue_entry where job_id = other.id and state = 'held')))
begin
  update queue_entry set state = 'held' where job_id = new.job_id;
  insert into key_to_settle select new.tenant_id, new.serial_key where new.serial_key is not null;
end;

-- A job that starts to wait for a child that has ended, or does not exist, becomes ready at once.
create trigger child_had_ended after insert on queue_entry
when new.state = 'later' and exists (
  select 1 from job p
  where p.id = new.job_id and p.status = 'RETRY' and p.wait_reason = 'child' and p.note ->> 'child' is not null
    and not exists (select 1 from job c where c.id = p.note ->> 'child' and c.finished_at is null))
begin
  update job set next_retry_at = updated_at where id = new.job_id;
  update queue_entry
  set due_at = (select updated_at from job where id = new.job_id), state = iif(serial_key is null, 'ready', 'blocked')
  where job_id = new.job_id;
end;

-- what follows when an approval closes ------------------------------------------------------------

create trigger approval_closed after update of outcome on approval_request
when old.outcome is null and new.outcome is not null
begin
  delete from approval_approver where approval_request_id = new.id;
  delete from approval_notice where approval_request_id = new.id;
  insert into approval_to_tell values (new.id, 'settle', new.closed_at);
end;

-- procedures --------------------------------------------------------------------------------------
-- A procedure is a view with a trigger: `insert into key_to_settle` runs the trigger.

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

-- Pauses an agent or a tenant whose budget is spent. The pause comes last: after it the view no longer has the budget.
create view budget_to_check as select null as scope, null as name, null as at;
create trigger pause_spent_budget instead of insert on budget_to_check
when exists (select 1 from spent_budget where scope = new.scope and name = new.name)
begin
  insert into audit_log (at, tenant_id, actor, action, object_type, object_id, reason, details)
  select new.at, iif(scope = 'tenant', name, null), 'budget', 'BUDGET_EXHAUSTED', scope, name, reason,
    json_object('spent_cents', spent_cents, 'budget_cents', budget_cents)
  from spent_budget where scope = new.scope and name = new.name;

  insert into lane_pass (id) select 1 where new.scope = 'tenant' on conflict (id) do update set again = 1;

  update control
  set paused = 1, paused_by = 'budget', paused_at = new.at, updated_by = 'budget', updated_at = new.at,
    pause_reason = (select reason from spent_budget where scope = new.scope and name = new.name)
  where scope = new.scope and name = new.name;
end;

-- Saves a checkpoint, fenced by the run id and by the checkpoint that it follows. A repeated write finds its own id and adds no cost.
create view checkpoint_to_save (job_id, run_id, id, previous_id, cost_cents, document, at) as
select id, run_id, checkpoint_id, null, 0, checkpoint, updated_at from job;
create trigger save_checkpoint instead of insert on checkpoint_to_save
begin
  update job
  set checkpoint = new.document,
    checkpoint_id = new.id,
    cost_cents = cost_cents + iif(checkpoint_id is new.id, 0, new.cost_cents),
    updated_at = max(new.at, updated_at)
  where id = new.job_id
    and run_id = new.run_id
    and (checkpoint_id is new.previous_id or checkpoint_id = new.id);
end;

-- Creates a job for the agent `cortex.notify` for each person. By purpose: `ask` those who can still vote, `remind` those of them who were
-- not notified recently, `escalate` to those who were added, and `settle` with those who have a token.
create view approval_to_tell as select null as approval_request_id, null as purpose, null as at;
create trigger tell_approvers instead of insert on approval_to_tell
begin
  insert into approval_notice (approval_request_id, user_account_id, notified_at, untold)
  select r.id, u.id, new.at, 1
  from approval_request r
  join user_account u on u.id in (
    select p.user_account_id from approval_approver p
    where p.approval_request_id = r.id and p.user_account_id is not null and (new.purpose <> 'escalate' or p.escalated)
    union
    select m.user_account_id from approval_approver p
    join group_member m on m.group_id = p.user_group_id
    where p.approval_request_id = r.id and (new.purpose <> 'escalate' or p.escalated)
    union
    select o.user_account_id from user_role o
    where not r.designated and new.purpose in ('ask', 'remind')
      and o.role = 'approver' and (o.tenant_id is null or o.tenant_id = r.tenant_id))
  where r.id = new.approval_request_id
    and new.purpose <> 'settle'
    and u.disabled_at is null
    and u.owner_id is null
    and not exists (select 1 from approval_vote v where v.approval_request_id = r.id and v.user_account_id = u.id)
    and not (r.no_self_approval
      and exists (select 1 from job_submitter s where s.job_id = r.job_id and s.user_account_id = u.id))
    and not (new.purpose = 'remind' and exists (
      select 1 from approval_notice b
      where b.approval_request_id = r.id and b.user_account_id = u.id
        and b.notified_at + cast(round(1000000 * r.remind_after_seconds) as integer) > new.at))
  on conflict (approval_request_id, user_account_id) do update set notified_at = excluded.notified_at, untold = 1;
  insert into job
    (id, tenant_id, agent_id, job_type, queue, position, payload, max_retries, worker_job_id, created_by, cause, actor,
     created_at, queued_at, updated_at)
  select
    printf('%08x-%04x-7%s-8%s-%s', (new.at / 1000) >> 16, (new.at / 1000) & 65535,
      substr(lower(hex(randomblob(2))), 2), substr(lower(hex(randomblob(2))), 2), lower(hex(randomblob(6)))),
    r.tenant_id, a.id, a.job_type, 'cortex',
    (select value from counter where name = 'position') + 100 * row_number() over (order by p.user_account_id),
    json_object('approval_request_id', r.id, 'user_account_id', p.user_account_id, 'purpose', new.purpose),
    coalesce(json_extract(a.skill_config, '$.retry.max_retries'), 3),
    (select value from counter where name = 'queue_entry') + row_number() over (order by p.user_account_id),
    a.job_type, 'submit', a.job_type, new.at, new.at, new.at
  from approval_request r
  join agent a on a.job_type = 'cortex.notify'
  join (
    select n.user_account_id from approval_notice n where n.approval_request_id = new.approval_request_id and n.untold
    union
    select t.user_account_id from approval_token t where t.approval_request_id = new.approval_request_id and new.purpose = 'settle') p
  where r.id = new.approval_request_id;
  update approval_notice set untold = 0 where approval_request_id = new.approval_request_id and untold;
end;

-- Creates a delivery of `approval.undecidable` for each endpoint that subscribes to it.
create view undecidable_to_tell as select null as approval_request_id, null as problem, null as at;
create trigger tell_undecidable instead of insert on undecidable_to_tell
begin
  insert into job
    (id, tenant_id, agent_id, job_type, queue, position, payload, max_retries, worker_job_id, created_by, cause, actor,
     created_at, queued_at, updated_at)
  select
    printf('%08x-%04x-7%s-8%s-%s', (new.at / 1000) >> 16, (new.at / 1000) & 65535,
      substr(lower(hex(randomblob(2))), 2), substr(lower(hex(randomblob(2))), 2), lower(hex(randomblob(6)))),
    r.tenant_id, a.id, a.job_type, 'cortex',
    (select value from counter where name = 'position') + 100 * row_number() over (order by e.id),
    json_object(
      'endpoint_id', e.id,
      'event_id', 'evt_' || replace(r.id, '-', '') || '_undecidable',
      'event', json_object(
        'type', 'approval.undecidable',
        'timestamp', strftime('%Y-%m-%dT%H:%M:%S', r.created_at / 1000000, 'unixepoch')
          || iif(r.created_at % 1000000, printf('.%06d', r.created_at % 1000000), '') || '+00:00',
        'data', json_object(
          'approval_request_id', r.id,
          'job_id', r.job_id,
          'agent', j.job_type,
          'summary', r.action_summary,
          'problem', new.problem))),
    coalesce(json_extract(a.skill_config, '$.retry.max_retries'), 3),
    (select value from counter where name = 'queue_entry') + row_number() over (order by e.id),
    a.job_type, 'submit', a.job_type, new.at, new.at, new.at
  from approval_request r
  join job j on j.id = r.job_id
  join webhook_endpoint e on e.tenant_id = r.tenant_id and e.enabled = 1
  join agent a on a.job_type = 'cortex.webhook'
  where r.id = new.approval_request_id
    and exists (
      select 1 from json_each(e.events) f where f.value in ('*', 'approval.*', 'approval.undecidable'));
end;

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
create view successor_to_add (kind, job_id, id, actor, created_by, parent_id, checkpoint_id, checkpoint, at) as
select null, null, null, null, null, null, null, null, null where false;
create trigger add_successor instead of insert on successor_to_add
when not exists (select 1 from job where id = new.id or (new.kind <> 'fork' and retry_of = new.job_id))
begin
  insert into job (
    id, retry_of, cause, actor, retry_count, run_at,
    tenant_id, agent_id, job_type, queue, priority, payload, max_retries, retry_policy, timeout_seconds, serial_key,
    template_id, session_id, tags, created_by, submitters, deadline_seconds, deadline_at,
    group_id, parent_id, cancel_with_parent, schedule_id, request_id, trace_id, effect_root,
    checkpoint_id, checkpoint,
    position, worker_job_id, created_at, queued_at, updated_at)
  select
    new.id,
    iif(new.kind <> 'fork', j.id, null),
    iif(new.kind = 'chain', 'retry', new.kind),
    new.actor,
    iif(new.kind = 'chain', j.retry_count + 1, 0),
    iif(new.kind = 'chain', j.updated_at + cast(round(1000000 * json_extract(j.note, '$.retry_delay_seconds')) as integer), null),

    j.tenant_id, j.agent_id, j.job_type, j.queue, j.priority, j.payload, j.max_retries, j.retry_policy, j.timeout_seconds,
    j.serial_key, j.template_id, j.session_id, j.tags, coalesce(new.created_by, j.created_by),
    iif(new.kind = 'chain', j.submitters, (
      select nullif(json_group_array(distinct b.signature), '[]')
      from (
        select e.value as signature from json_each(j.submitters) e
        union all select iif(new.created_by is null, null, j.created_by)
        union all select new.actor) b
      where b.signature is not null)),
    j.deadline_seconds,
    iif(j.deadline_seconds is null and (new.kind = 'chain' or j.deadline_at > new.at), j.deadline_at, null),

    iif(new.kind <> 'fork', j.group_id, null),
    iif(new.kind <> 'fork', coalesce(new.parent_id, j.parent_id), null),
    iif(new.kind <> 'fork', j.cancel_with_parent, 0),
    iif(new.kind <> 'fork', j.schedule_id, null),
    iif(new.kind <> 'fork', j.request_id, null),
    iif(new.kind <> 'fork', j.trace_id, null),
    iif(new.kind in ('chain', 'resume', 'settle') or (new.kind = 'retry' and j.status = 'FAILED'), coalesce(j.effect_root, j.id), null),

    case when new.kind in ('chain', 'resume') then j.checkpoint_id when new.kind in ('fork', 'settle') then new.checkpoint_id end,
    case when new.kind in ('chain', 'resume') then j.checkpoint when new.kind in ('fork', 'settle') then new.checkpoint end,

    (select value + 100 from counter where name = 'position'),
    (select value + 1 from counter where name = 'queue_entry'),
    new.at, new.at, new.at
  from job j
  where j.id = new.job_id
    and (new.kind = 'fork' or j.status in ('COMPLETED', 'FAILED', 'CANCELLED'))
    and (new.kind in ('chain', 'fork') or not exists (
      select 1 from execution_request r join execution_grant g on g.id = r.grant_id
      where r.id = j.request_id and g.revoked_at is not null));
  -- Large results, and the segments that its checkpoint names.
  insert into job_blob (job_id, sha256, content, seq, created_at)
  select j.id, b.sha256, b.content, b.seq, new.at
  from job j
  cross join job_blob b
  where j.id = new.id
    and b.job_id = new.job_id
    and (b.seq is null or b.seq <= j.checkpoint ->> '$.memory_context.working_data."$cortex".sealed.last')
    and new.kind <> 'retry';
  -- The state of a graph is stored in the thread that has the job's id.
  insert into graph_checkpoint
    (thread_id, namespace, checkpoint_id, parent_id, run_id, kind, content, channels, metadata, created_at)
  select j.id, c.namespace, c.checkpoint_id, c.parent_id, c.run_id, c.kind, c.content, c.channels, c.metadata, new.at
  from job j
  cross join graph_checkpoint c
  where j.id = new.id and c.thread_id = new.job_id and new.kind in ('chain', 'resume', 'settle');
  insert into graph_value (thread_id, namespace, channel, version, kind, content)
  select j.id, v.namespace, v.channel, v.version, v.kind, v.content
  from job j
  cross join graph_value v
  where j.id = new.id and v.thread_id = new.job_id and new.kind in ('chain', 'resume', 'settle');
  insert into graph_write (thread_id, namespace, checkpoint_id, task_id, place, channel, task_path, kind, content)
  select j.id, w.namespace, w.checkpoint_id, w.task_id, w.place, w.channel, w.task_path, w.kind, w.content
  from job j
  cross join graph_write w
  where j.id = new.id and w.thread_id = new.job_id and new.kind in ('chain', 'resume', 'settle');
end;
