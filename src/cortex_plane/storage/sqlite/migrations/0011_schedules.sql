-- Schedules, their slots, the grants under which they run, the runs that were asked for, and what those have used.
--
--   who writes what
--     schedule, schedule_run               the slot runner, the reconciler and operators: never the execution service
--     execution_request                    the execution service; its outcome by a trigger of job
--     charge_receipt                       a trigger of job, for jobs that were asked for under a grant
--
-- One order of locks: grant, schedule, slot; then as everywhere.

create table billing_account (
  id text primary key,
  tenant_id text not null references tenant (id),
  name text not null check (name <> ''),
  default_virtual_key_id text not null check (default_virtual_key_id <> ''),
  created_at integer not null,
  unique (tenant_id, name)
) strict;

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
-- A name is free again when its schedule was removed; the row stays, for its slots.
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

-- One row: when the schedules were last looked through, so that of many workers one does it.
create table schedule_reconciler (
  id integer primary key check (id = 1),
  reconciled_at integer not null
) strict;
insert into schedule_reconciler (id, reconciled_at) values (1, 0);

-- No foreign key to job: it outlives the job.
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

alter table job add column request_id text;
alter table job add column trace_id text;

-- These columns never change, so no transition touches the indexes.
create index job_of_schedule on job (schedule_id) where schedule_id is not null;
create index job_of_request on job (request_id) where request_id is not null;

-- What an attempt has used since the last look: a cost and tokens are counted once, because the writes that bring them are.
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

-- Of the run itself: not of its children, and not of what an operator has run again later.
create trigger job_request_ended after update of status on job
when new.request_id is not null and new.finished_at is not null and old.finished_at is null
  and (new.status <> 'FAILED' or new.revision = old.revision or json_extract(new.note, '$.retry_as') is null)
begin
  update execution_request
  set outcome = new.status, outcome_message = new.error_message, finished_at = new.finished_at
  where id = new.request_id and run_id = coalesce(new.effect_root, new.id) and finished_at is null;
end;

-- What was asked for, and which slot it was, cannot be rewritten; nor how a request ended.
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
-- A slot that was skipped may be asked for again; how the others ended stays.
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
