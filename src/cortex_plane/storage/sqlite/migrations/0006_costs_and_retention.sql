-- What work has cost, what happens when a budget is spent, and how long finished jobs are kept.

-- Never smaller: a job that is deleted has cost what it has cost.
create table cost_total (
  tenant_id text not null,
  job_type text not null,
  cents integer not null check (cents >= 0),
  primary key (tenant_id, job_type)
) strict, without rowid;
create index cost_total_of_agent on cost_total (job_type);

-- Budgets that are spent, and whose agent or tenant goes on all the same.
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

-- A procedure, in SQLite's way: `insert into budget_to_check` runs the trigger.
-- The audit comes first and the pause last: once it is paused, the view no longer shows it, and nothing is done twice.
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
-- Nothing equals null, so what cannot occur stands for it.
create unique index retention_rule_one_of_each on retention_rule
  (coalesce(tenant_id, ''), coalesce(job_type, ''), coalesce(status, ''), record);

-- How far the audit log was pruned, in one row. Entries go only below this mark, and the mark moves only to the end of a seal that
-- a rule no longer keeps, after that was recorded in the log itself.
create table audit_pruned (
  id integer primary key check (id = 1),
  seal integer not null,
  digest text not null check (length(digest) = 64),
  last_seq integer not null,
  pruned_at integer not null
) strict;
insert into audit_pruned (id, seal, digest, last_seq, pruned_at)
values (1, 0, '0000000000000000000000000000000000000000000000000000000000000000', -9223372036854775808, 0);
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
create trigger audit_no_delete before delete on audit_log
when not exists (select 1 from audit_pruned where last_seq >= old.seq)
begin
  select raise(abort, 'Rows of audit_log are never changed or deleted.');
end;

-- The column never changes, so no transition touches this.
create index job_of_parent on job (parent_id) where parent_id is not null;
