-- What work has cost, what happens when a budget is spent, and how long finished jobs are kept.

-- Never smaller: a job that is deleted has cost what it has cost.
-- Half of each page is left free, so that rows are rewritten in place.
create table cortex.cost_total (
  tenant_id uuid not null,
  job_type text not null,
  cents bigint not null check (cents >= 0),
  primary key (tenant_id, job_type)
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
      update cortex.queue_entry set by_tenant = true
        where job_id = any (array(
          select job_id from cortex.queue_entry
          where tenant_id = _budget.name::uuid and not by_tenant
          for update skip locked));
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
  with grown as (
    insert into cortex.cost_total as t (tenant_id, job_type, cents)
    select tenant_id, job_type, sum(cents)::bigint
    from unnest(_of_tenants, _of_job_types, _cents) as u(tenant_id, job_type, cents)
    group by tenant_id, job_type
    order by tenant_id, job_type
    on conflict (tenant_id, job_type) do update set cents = t.cents + excluded.cents
    returning tenant_id, job_type
  )
  select array_agg(distinct job_type), array_agg(distinct tenant_id::text) into _job_types, _tenants from grown;
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
  created_at timestamptz not null default cortex.now()
);
-- Nothing equals null, so what cannot occur stands for it: a tenant of zeros, an empty name, a state that has not ended.
create unique index retention_rule_one_of_each on cortex.retention_rule (
  coalesce(tenant_id, '00000000-0000-0000-0000-000000000000'), coalesce(job_type, ''), coalesce(status, 'PENDING'));

-- The column never changes, so no transition touches this.
create index job_of_parent on cortex.job (parent_id) where parent_id is not null;

-- The next jobs after one of them, oldest first. Whatever the planner believes, it walks along the primary key and stops.
create function cortex.jobs_after(_after uuid, _limit int)
returns table (
  id uuid, tenant_id uuid, job_type text, status cortex.job_status, created_at timestamptz, finished_at timestamptz)
language plpgsql stable
  set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set plan_cache_mode = force_generic_plan
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
create function cortex.held_back(_jobs uuid[]) returns table (id uuid, predecessor uuid, needed boolean) language plpgsql stable
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
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
        where m.group_id = j.group_id and m.status not in ('COMPLETED', 'FAILED', 'CANCELLED'))
    from cortex.job j
    left join cortex.job p on p.id = j.retry_of
    where j.id = any (_jobs);
end $$;

-- Deletes jobs that have ended, with their runs and history. A function, so that its triggers keep to the primary keys too.
create function cortex.delete_jobs(_jobs uuid[]) returns setof uuid language plpgsql
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
begin
  return query
    delete from cortex.job j
    where j.id = any (_jobs) and j.status in ('COMPLETED', 'FAILED', 'CANCELLED')
    returning j.id;
end $$;

comment on table cortex.cost_total is 'What the jobs of each tenant and agent have cost so far, deleted ones included.';
comment on column cortex.cost_total.tenant_id is 'Whose jobs.';
comment on column cortex.cost_total.job_type is 'Of which agent.';
comment on column cortex.cost_total.cents is 'What they have cost.';

comment on table cortex.retention_rule is 'How long finished jobs are kept: the most specific rule holds; without one, for ever.';
comment on column cortex.retention_rule.id is 'UUIDv7.';
comment on column cortex.retention_rule.tenant_id is 'For jobs of this tenant; null for all.';
comment on column cortex.retention_rule.job_type is 'For jobs of this agent; null for all.';
comment on column cortex.retention_rule.status is 'For jobs that ended so; null for all that ended.';
comment on column cortex.retention_rule.keep_seconds is 'How long after their end.';
comment on column cortex.retention_rule.created_by is 'Who made the rule.';
comment on column cortex.retention_rule.created_at is 'When.';
