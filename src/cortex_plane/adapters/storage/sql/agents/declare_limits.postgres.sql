-- The limits that agents declare in code. What an operator has set stays.
-- Differs: a batch is a jsonb record set here.
insert into cortex.control as c (scope, name, max_running, updated_by)
select 'agent', job_type, max_concurrency, 'code'
from jsonb_to_recordset(cast(:limits as jsonb)) as l(job_type text, max_concurrency int)
on conflict (scope, name) do update
set max_running = excluded.max_running, updated_by = 'code', updated_at = excluded.updated_at
where c.updated_by = 'code' and c.max_running is distinct from excluded.max_running;
