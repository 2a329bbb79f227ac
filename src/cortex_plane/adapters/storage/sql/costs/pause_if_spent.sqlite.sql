-- Pauses an agent or a tenant whose budget is spent already.
-- Differs: a procedure is a trigger here.
insert into cortex.budget_to_check (scope, name, at)
values (:scope, :name, :now);
