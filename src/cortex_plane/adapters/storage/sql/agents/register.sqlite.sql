-- Writes the agents that a plane or worker has in code; those that are unchanged are left alone.
-- Differs: a batch is jsonb_each here, a jsonb record set there.
insert into cortex.agent (id, job_type, skill_config, created_at, updated_at)
select value ->> 'id', value ->> 'job_type', value -> 'skill_config', :now, :now
from jsonb_each(:agents)
where true
on conflict (job_type) do update
set skill_config = excluded.skill_config, updated_at = excluded.updated_at
where agent.skill_config <> excluded.skill_config;
