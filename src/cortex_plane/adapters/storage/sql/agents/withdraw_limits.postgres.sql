-- Limits that were declared in code, and no longer are.
-- Differs: a list is an array here.
delete from cortex.control
where scope = 'agent' and updated_by = 'code' and not paused and name = any (cast(:job_types as text[]));
