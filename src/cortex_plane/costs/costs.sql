-- name: budgets [postgres]
-- Every budget, with what is spent of it.
-- Differs: PostgreSQL adds up in a function, and a tenant's id is text in a control but not elsewhere.
select c.scope, c.name, c.budget_cents, c.on_exhausted, c.paused,
  case c.scope when 'tenant' then (select name from cortex.tenant where id = cast(c.name as uuid)) else c.name end as label,
  cortex.spent_cents(c.scope, c.name) as spent_cents
from cortex.control c
where c.budget_cents is not null
order by c.scope, label;

-- name: budgets [sqlite]
-- Every budget, with what is spent of it.
-- Differs: PostgreSQL adds up in a function, and a tenant's id is text in a control but not elsewhere.
select c.scope, c.name, c.budget_cents, c.on_exhausted, c.paused,
  case c.scope when 'tenant' then (select name from cortex.tenant where id = c.name) else c.name end as label,
  coalesce(case c.scope
    when 'agent' then (select sum(cents) from cortex.cost_total where job_type = c.name)
    when 'tenant' then (select sum(cents) from cortex.cost_total where tenant_id = c.name)
  end, 0) as spent_cents
from cortex.control c
where c.budget_cents is not null
order by c.scope, label;

-- name: budgets_of [postgres]
-- The budgets of these agents and tenants, with what is spent of them.
-- Differs: a list is a jsonb record set here, and PostgreSQL adds up in a function.
select c.scope, c.name, c.budget_cents, c.on_exhausted, c.paused,
  case c.scope when 'tenant' then (select name from cortex.tenant where id = cast(c.name as uuid)) else c.name end as label,
  cortex.spent_cents(c.scope, c.name) as spent_cents
from jsonb_to_recordset(cast(:wanted as jsonb)) as w(scope text, name text)
join cortex.control c on c.scope = w.scope and c.name = w.name
where c.budget_cents is not null
order by c.scope, label;

-- name: budgets_of [sqlite]
-- The budgets of these agents and tenants, with what is spent of them.
-- Differs: a list is jsonb_each here, and PostgreSQL adds up in a function.
select c.scope, c.name, c.budget_cents, c.on_exhausted, c.paused,
  case c.scope when 'tenant' then (select name from cortex.tenant where id = c.name) else c.name end as label,
  coalesce(case c.scope
    when 'agent' then (select sum(cents) from cortex.cost_total where job_type = c.name)
    when 'tenant' then (select sum(cents) from cortex.cost_total where tenant_id = c.name)
  end, 0) as spent_cents
from jsonb_each(:wanted) w
cross join cortex.control c on c.scope = w.value ->> 'scope' and c.name = w.value ->> 'name'
where c.budget_cents is not null
order by c.scope, label;

-- name: pause_if_spent [postgres]
-- Pauses an agent or a tenant whose budget is spent already.
-- Differs: a procedure is a function here.
select cortex.pause_spent_budgets(
  case :scope when 'agent' then array[cast(:name as text)] end, case :scope when 'tenant' then array[cast(:name as text)] end);

-- name: pause_if_spent [sqlite]
-- Pauses an agent or a tenant whose budget is spent already.
-- Differs: a procedure is a trigger here.
insert into cortex.budget_to_check (scope, name, at)
values (:scope, :name, :now);

-- name: totals
-- What was spent, by tenant and agent.
select c.tenant_id, t.name as tenant, c.job_type, cast(sum(c.cents) as bigint) as cents
from cortex.cost_total c
join cortex.tenant t on t.id = c.tenant_id
where (cast(:tenant_id as text) is null or cast(c.tenant_id as text) = cast(:tenant_id as text))
  and (cast(:job_type as text) is null or c.job_type = cast(:job_type as text))
group by c.tenant_id, t.name, c.job_type
order by t.name, c.job_type;
