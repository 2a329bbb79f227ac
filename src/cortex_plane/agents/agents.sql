-- name: declare_limits [postgres]
-- The limits that agents declare in code. What an operator has set stays.
-- Differs: a batch is a jsonb record set here.
insert into cortex.control as c (scope, name, max_running, updated_by)
select 'agent', job_type, max_concurrency, 'code'
from jsonb_to_recordset(cast(:limits as jsonb)) as l(job_type text, max_concurrency int)
on conflict (scope, name) do update
set max_running = excluded.max_running, updated_by = 'code', updated_at = excluded.updated_at
where c.updated_by = 'code' and c.max_running is distinct from excluded.max_running;

-- name: declare_limits [sqlite]
-- The limits that agents declare in code. What an operator has set stays.
-- Differs: a batch is jsonb_each here.
insert into cortex.control as c (scope, name, max_running, updated_by, updated_at)
select 'agent', value ->> 'job_type', value ->> 'max_concurrency', 'code', :now from jsonb_each(:limits)
where true
on conflict (scope, name) do update
set max_running = excluded.max_running, updated_by = 'code', updated_at = excluded.updated_at
where c.updated_by = 'code' and c.max_running is not excluded.max_running;

-- name: list
-- All agents that any plane or worker has registered.
select id, job_type, skill_config
from cortex.agent
order by job_type;

-- name: register [postgres]
-- Writes the agents that a plane or worker has in code; those that are unchanged are left alone.
-- Differs: a batch is a jsonb record set here, jsonb_each there.
insert into cortex.agent (id, job_type, skill_config)
select id, job_type, skill_config
from jsonb_to_recordset(cast(:agents as jsonb)) as a(id uuid, job_type text, skill_config jsonb)
order by job_type
on conflict (job_type) do update
set skill_config = excluded.skill_config, updated_at = cortex.now()
where agent.skill_config <> excluded.skill_config;

-- name: register [sqlite]
-- Writes the agents that a plane or worker has in code; those that are unchanged are left alone.
-- Differs: a batch is jsonb_each here, a jsonb record set there.
insert into cortex.agent (id, job_type, skill_config, created_at, updated_at)
select value ->> 'id', value ->> 'job_type', value -> 'skill_config', :now, :now
from jsonb_each(:agents)
where true
on conflict (job_type) do update
set skill_config = excluded.skill_config, updated_at = excluded.updated_at
where agent.skill_config <> excluded.skill_config;

-- name: withdraw_limits [postgres]
-- Limits that were declared in code, and no longer are.
-- Differs: a list is an array here.
delete from cortex.control
where scope = 'agent' and updated_by = 'code' and not paused and name = any (cast(:job_types as text[]));

-- name: withdraw_limits [sqlite]
-- Limits that were declared in code, and no longer are.
-- Differs: a list is JSON here.
delete from cortex.control
where scope = 'agent' and updated_by = 'code' and not paused and name in (select value from json_each(:job_types));
