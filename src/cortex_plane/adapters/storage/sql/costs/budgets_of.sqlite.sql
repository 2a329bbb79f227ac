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
