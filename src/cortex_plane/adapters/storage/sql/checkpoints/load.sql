-- The checkpoint of one job, and what it must fit to. No row: none is written, or there is no such job.
select id, agent_id, job_type, checkpoint_id, checkpoint, checkpoint_added
from cortex.job
where id = :job_id
  and checkpoint is not null;
