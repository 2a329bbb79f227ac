-- What work has cost, what happens when a budget is spent, and how long finished jobs are kept.

-- Never smaller: a job that is deleted has cost what it has cost.
-- In parts, because whoever finds all parts locked adds one: two batches of the same agent need not wait for each other, nor for others.
-- Half of each page is left free, so that rows are rewritten in place.
create table cortex.cost_total (
  tenant_id uuid not null,
  job_type text not null,
  cents bigint not null check (cents >= 0),
  part bigint generated always as identity,
  primary key (tenant_id, job_type, part)
) with (fillfactor = 50);
create index cost_total_of_agent on cortex.cost_total (job_type);

create function cortex.spent_cents(_scope text, _name text) returns bigint language sql stable as $$
  select coalesce(case _scope
    when 'agent' then (select sum(cents) from cortex.cost_total where job_type = _name)
    when 'tenant' then (select sum(cents) from cortex.cost_total where tenant_id = _name::uuid)
  end, 0)::bigint
$$;

-- Pauses each of these whose budget is spent, once. Two who finish at the same time take turns at the control's row, so that
-- the second counts what the first has spent. Waiting jobs that somebody else holds get their lane from the next claim.
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

-- Adds up what jobs have cost since the last look.
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
  -- Shared: a budget that is being set sees this cost, or this cost sees the budget.
  perform pg_advisory_xact_lock_shared(1129270868, 0);
  if exists (select 1 from cortex.control where on_exhausted = 'pause' and not paused) then
    perform cortex.pause_spent_budgets(_job_types, _tenants);
  end if;
end $$;

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
-- Nothing equals null, so what cannot occur stands for it: a tenant of zeros, an empty name, a state that has not ended.
create unique index retention_rule_one_of_each on cortex.retention_rule (
  coalesce(tenant_id, '00000000-0000-0000-0000-000000000000'), coalesce(job_type, ''), coalesce(status, 'PENDING'), record);

-- How far the audit log was pruned, in one row. Entries go only below this mark, and the mark moves only to the end of a seal that
-- a rule no longer keeps, after that was recorded in the log itself.
create table cortex.audit_pruned (
  id integer primary key check (id = 1),
  seal bigint not null,
  digest text not null check (length(digest) = 64),
  last_seq bigint not null,
  pruned_at timestamptz not null
);
insert into cortex.audit_pruned (id, seal, digest, last_seq, pruned_at)
values (1, 0, repeat('0', 64), -9223372036854775808, 'epoch');

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

create function cortex.refuse_unless_pruned() returns trigger language plpgsql as $$
begin
  if exists (select 1 from cortex.audit_pruned where last_seq >= old.seq) then
    return old;
  end if;
  raise exception 'Rows of % are never changed or deleted.', tg_table_name using errcode = 'check_violation';
end $$;
create trigger audit_no_delete before delete on cortex.audit_log
  for each row execute function cortex.refuse_unless_pruned();

create function cortex.delete_audit_entries(_after bigint, _through bigint) returns setof bigint language plpgsql
  set jit = off set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan
as $$
begin
  return query
    delete from cortex.audit_log where seq > _after and seq <= _through
    returning seq;
end $$;

-- The column never changes, so no transition touches this.
create index job_of_parent on cortex.job (parent_id) where parent_id is not null;

-- The next jobs after one of them, oldest first. Whatever the planner believes, it walks along the primary key and stops.
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

-- What stands in the way of deleting jobs: `needed`, because something that goes on may still ask for the job; `predecessor`,
-- the job that it retries, if that is still there.
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

-- Deletes jobs that have ended, with their runs and history. A function, so that its triggers keep to the primary keys too.
create function cortex.delete_jobs(_jobs uuid[]) returns setof uuid language plpgsql
  set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
begin
  return query
    delete from cortex.job j
    where j.id = any (_jobs) and j.status in ('COMPLETED', 'FAILED', 'CANCELLED')
    returning j.id;
end $$;

-- The oldest records of other kinds that have ended. Ids sort by age, so they are found at the old end of the primary key.
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

comment on table cortex.cost_total is 'What the jobs of each tenant and agent have cost so far, deleted ones included.';
comment on column cortex.cost_total.tenant_id is 'Whose jobs.';
comment on column cortex.cost_total.job_type is 'Of which agent.';
comment on column cortex.cost_total.cents is 'What they have cost.';
comment on column cortex.cost_total.part is 'Which part of the total of this agent and tenant it is.';

comment on table cortex.audit_pruned is 'How far the audit log was pruned, in one row.';
comment on column cortex.audit_pruned.id is '1.';
comment on column cortex.audit_pruned.seal is 'The last seal whose entries were pruned; 0 before the first time.';
comment on column cortex.audit_pruned.digest is 'The digest of that seal.';
comment on column cortex.audit_pruned.last_seq is 'The last entry that it covered.';
comment on column cortex.audit_pruned.pruned_at is 'When.';

comment on table cortex.retention_rule is 'How long finished jobs and other records are kept: for jobs the most specific rule holds; without one, for ever.';
comment on column cortex.retention_rule.id is 'UUIDv7.';
comment on column cortex.retention_rule.tenant_id is 'For jobs of this tenant; null for all.';
comment on column cortex.retention_rule.job_type is 'For jobs of this agent; null for all.';
comment on column cortex.retention_rule.status is 'For jobs that ended so; null for all that ended.';
comment on column cortex.retention_rule.keep_seconds is 'How long after their end.';
comment on column cortex.retention_rule.record is 'What it is about, by its table.';
comment on column cortex.retention_rule.created_by is 'Who made the rule.';
comment on column cortex.retention_rule.created_at is 'When.';
