-- The checkpoints of jobs that have not ended, by the jobs' ids. Walks along the primary key, past those that have.
select id, agent_id, job_type, checkpoint_id, checkpoint, checkpoint_added
from cortex.job
where id > :after
  and checkpoint is not null
  and status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
order by id
limit :limit;
