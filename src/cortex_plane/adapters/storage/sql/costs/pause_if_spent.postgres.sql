-- Pauses an agent or a tenant whose budget is spent already.
-- Differs: a procedure is a function here.
select cortex.pause_spent_budgets(
  case :scope when 'agent' then array[cast(:name as text)] end, case :scope when 'tenant' then array[cast(:name as text)] end);
