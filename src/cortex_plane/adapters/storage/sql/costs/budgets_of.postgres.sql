-- The budgets of these agents and tenants, with what is spent of them.
-- Differs: a list is a jsonb record set here, and PostgreSQL adds up in a function.
select c.scope, c.name, c.budget_cents, c.on_exhausted, c.paused,
  case c.scope when 'tenant' then (select name from cortex.tenant where id = cast(c.name as uuid)) else c.name end as label,
  cortex.spent_cents(c.scope, c.name) as spent_cents
from jsonb_to_recordset(cast(:wanted as jsonb)) as w(scope text, name text)
join cortex.control c on c.scope = w.scope and c.name = w.name
where c.budget_cents is not null
order by c.scope, label;
