-- All agents that any plane or worker has registered.
select id, job_type, skill_config
from cortex.agent
order by job_type;
