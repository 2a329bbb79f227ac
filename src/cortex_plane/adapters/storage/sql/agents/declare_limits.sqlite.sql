-- The limits that agents declare in code. What an operator has set stays.
-- Differs: a batch is jsonb_each here.
insert into cortex.control as c (scope, name, max_running, updated_by, updated_at)
select 'agent', value ->> 'job_type', value ->> 'max_concurrency', 'code', :now from jsonb_each(:limits)
where true
on conflict (scope, name) do update
set max_running = excluded.max_running, updated_by = 'code', updated_at = excluded.updated_at
where c.updated_by = 'code' and c.max_running is not excluded.max_running;
