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
  created_at integer not null,
  updated_at integer not null,
  unique (tenant_id, name),
  constraint paused_at_exactly_when_disabled check (enabled = (paused_at is null)),
  constraint next_run_at_only_when_enabled check (enabled or next_run_at is null)
) strict;
create index schedule_of_grant on schedule (grant_id);
create index schedule_of_owner on schedule (owner_id);
create index schedule_next_run on schedule (next_run_at) where enabled = 1;

create table schedule_run (
  id text primary key,
  schedule_id text not null references schedule (id) on delete cascade,
  scheduled_for integer not null,
  local_time text not null,
  origin text not null check (origin in ('cron', 'manual', 'backfill')),
  status text not null default 'pending' check (status in ('pending', 'running', 'success', 'error', 'skipped')),
  reason text,
  error_code text,
  error_message text,
  run_id text,
  trace_id text,
  job_id text,
  replaced_by text,
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
create index execution_request_open on execution_request (grant_id) where finished_at is null;

create table charge_receipt (
  run_id text not null,
  attempt integer not null,
  unit text not null check (unit in ('cents', 'prompt_tokens', 'completion_tokens')),
  quantity integer not null check (quantity > 0),
  request_id text not null references execution_request (id),
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

-- The retry of a job that ended, as before; what was asked for under a grant stays so.
drop trigger job_chained;
create trigger job_chained after update of status on job
when new.status = 'FAILED' and old.status <> 'FAILED' and new.revision <> old.revision
  and json_extract(new.note, '$.retry_as') is not null
begin
  insert into job
    (id, tenant_id, agent_id, job_type, queue, priority, position, payload, retry_count, max_retries, retry_policy, run_at,
     timeout_seconds, serial_key, group_id, template_id, schedule_id, request_id, trace_id, parent_id, cancel_with_parent,
     session_id, created_by, retry_of, tags, worker_job_id, cause, actor, created_at, queued_at, updated_at)
  select json_extract(new.note, '$.retry_as'), new.tenant_id, new.agent_id, new.job_type, new.queue, new.priority,
    (select value + 100 from counter where name = 'position'), new.payload, new.retry_count + 1, new.max_retries,
    new.retry_policy,
    new.updated_at + cast(round(1000000 * json_extract(new.note, '$.retry_delay_seconds')) as integer),
    new.timeout_seconds, new.serial_key, new.group_id, new.template_id, new.schedule_id, new.request_id, new.trace_id,
    new.parent_id, new.cancel_with_parent, new.session_id, new.created_by, new.id, new.tags,
    (select value + 1 from counter where name = 'queue_entry'), 'retry', new.actor, new.updated_at, new.updated_at,
    new.updated_at
  where not exists (select 1 from job where retry_of = new.id);
end;

-- What an attempt has used since the last look: a cost and tokens are counted once, because the writes that bring them are.
create trigger job_used after update of cost_cents, checkpoint, checkpoint_added on job
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
      coalesce(json_extract(coalesce(new.checkpoint_added, new.checkpoint), '$.memory_context.token_usage.prompt_tokens'), 0)
      - coalesce(json_extract(coalesce(old.checkpoint_added, old.checkpoint), '$.memory_context.token_usage.prompt_tokens'), 0)
    union all
    select 'completion_tokens',
      coalesce(json_extract(coalesce(new.checkpoint_added, new.checkpoint), '$.memory_context.token_usage.completion_tokens'), 0)
      - coalesce(json_extract(coalesce(old.checkpoint_added, old.checkpoint), '$.memory_context.token_usage.completion_tokens'), 0)) used
  join execution_request r on r.id = new.request_id
  where used.quantity > 0
  on conflict (run_id, attempt, unit) do update
  set quantity = quantity + excluded.quantity, updated_at = excluded.updated_at;
end;

create trigger job_request_ended after update of status on job
when new.request_id is not null and new.finished_at is not null and old.finished_at is null
  and (new.status <> 'FAILED' or new.revision = old.revision or json_extract(new.note, '$.retry_as') is null)
begin
  update execution_request
  set outcome = new.status, outcome_message = new.error_message, finished_at = new.finished_at
  where id = new.request_id;
end;
