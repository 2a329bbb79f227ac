-- Writes the agents that a plane or worker has in code; those that are unchanged are left alone.
-- Differs: a batch is a jsonb record set here, jsonb_each there.
insert into cortex.agent (id, job_type, skill_config)
select id, job_type, skill_config
from jsonb_to_recordset(cast(:agents as jsonb)) as a(id uuid, job_type text, skill_config jsonb)
order by job_type
on conflict (job_type) do update
set skill_config = excluded.skill_config, updated_at = cortex.now()
where agent.skill_config <> excluded.skill_config;
