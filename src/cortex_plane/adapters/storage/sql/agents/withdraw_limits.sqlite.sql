-- Limits that were declared in code, and no longer are.
-- Differs: a list is JSON here.
delete from cortex.control
where scope = 'agent' and updated_by = 'code' and not paused and name in (select value from json_each(:job_types));
