-- Schedules, their slots, the grants under which they run, the runs that were asked for, and what those have used.
--
--   who writes what
--     schedule, schedule_run               the slot runner, the reconciler and operators: never the execution service
--     execution_request                    the execution service; its outcome by a trigger of job
--     charge_receipt                       a trigger of job, for jobs that were asked for under a grant
--
-- One order of locks: grant, schedule, slot; then as everywhere.

create table cortex.billing_account (
  id uuid primary key default cortex.uuid7(),
  tenant_id uuid not null references cortex.tenant (id),
  name text not null check (name <> ''),
  default_virtual_key_id text not null check (default_virtual_key_id <> ''),
  created_at timestamptz not null default cortex.now(),
  unique (tenant_id, name)
);

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
-- A name is free again when its schedule was removed; the row stays, for its slots.
create unique index schedule_name on cortex.schedule (tenant_id, name) where removed_at is null;
create index schedule_of_grant on cortex.schedule (grant_id);
create index schedule_of_owner on cortex.schedule (owner_id);
create index schedule_next_run on cortex.schedule (next_run_at) where enabled;

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

-- One row: when the schedules were last looked through, so that of many workers one does it.
create table cortex.schedule_reconciler (
  id integer primary key check (id = 1),
  reconciled_at timestamptz not null
);
insert into cortex.schedule_reconciler (id, reconciled_at) values (1, 'epoch');

-- No foreign key to job: it outlives the job.
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

alter table cortex.job
  add column request_id uuid,
  add column trace_id text;

-- These columns never change, so no transition touches the indexes.
create index job_of_schedule on cortex.job (schedule_id) where schedule_id is not null;
create index job_of_request on cortex.job (request_id) where request_id is not null;

-- What attempts have used since the last look, and how what was asked for has ended. A cost and tokens are counted once,
-- because the writes that bring them are.
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

  -- Of the run itself: not of its children, and not of what an operator has run again later.
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

comment on column cortex.job.request_id is 'The request under a grant that it was started for.';
comment on column cortex.job.trace_id is 'The W3C trace that it belongs to.';

-- The oldest records that have ended, for retention. The newest slot of each schedule stays: the next is counted from it.
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

comment on table cortex.billing_account is 'Who is charged for runs that are started under a grant.';
comment on column cortex.billing_account.id is 'UUIDv7.';
comment on column cortex.billing_account.tenant_id is 'Whose account it is.';
comment on column cortex.billing_account.name is 'Its name, unique for the tenant.';
comment on column cortex.billing_account.default_virtual_key_id is 'The key that runs are charged to.';
comment on column cortex.billing_account.created_at is 'When it was made.';

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

comment on table cortex.schedule_reconciler is 'One row: when the schedules were last looked through.';
comment on column cortex.schedule_reconciler.id is 'Always 1.';
comment on column cortex.schedule_reconciler.reconciled_at is 'When that was.';

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

-- What was asked for, and which slot it was, cannot be rewritten; nor how a request or a slot ended.
create trigger request_as_asked before update of id, tenant_id, idempotency_key, request_hash, graph_id, grant_id, billing_account_id, virtual_key_id, run_id, trace_id, created_at on cortex.execution_request
  for each row when ((new.id, new.tenant_id, new.idempotency_key, new.request_hash, new.graph_id, new.grant_id, new.billing_account_id, new.virtual_key_id, new.run_id, new.trace_id, new.created_at)
      is distinct from (old.id, old.tenant_id, old.idempotency_key, old.request_hash, old.graph_id, old.grant_id, old.billing_account_id, old.virtual_key_id, old.run_id, old.trace_id, old.created_at))
  execute function cortex.refuse_change();
create trigger request_ended_so before update of outcome, outcome_message, finished_at on cortex.execution_request
  for each row when (
    old.finished_at is not null and (new.outcome, new.outcome_message, new.finished_at)
      is distinct from (old.outcome, old.outcome_message, old.finished_at))
  execute function cortex.refuse_change();
create trigger slot_as_planned before update of id, schedule_id, scheduled_for, local_time, timezone, origin, created_at on cortex.schedule_run
  for each row when ((new.id, new.schedule_id, new.scheduled_for, new.local_time, new.timezone, new.created_at)
      is distinct from (old.id, old.schedule_id, old.scheduled_for, old.local_time, old.timezone, old.created_at)
    or new.origin is distinct from old.origin and not (old.status = 'skipped' and new.status = 'pending' and new.origin = 'backfill'))
  execute function cortex.refuse_change();
-- A slot that was skipped may be asked for again; how the others ended stays.
create trigger slot_ended_so before update of status, reason, error_code, error_message, run_id, trace_id, job_id, replaced_by, begin_by, started_at, completed_at on cortex.schedule_run
  for each row when (
    old.completed_at is not null and not (old.status = 'skipped' and new.status = 'pending')
    and (new.status, new.reason, new.error_code, new.error_message, new.run_id, new.trace_id, new.job_id, new.replaced_by, new.begin_by, new.started_at, new.completed_at)
      is distinct from (old.status, old.reason, old.error_code, old.error_message, old.run_id, old.trace_id, old.job_id, old.replaced_by, old.begin_by, old.started_at, old.completed_at))
  execute function cortex.refuse_change();
