-- Saves a batch of checkpoints, at most one for each job, each fenced by its run id; returns the ids that applied.
-- Differs: a batch is jsonb_each here.
update cortex.job as j
set checkpoint = c.value -> 'checkpoint', updated_at = :now
from jsonb_each(:batch) c
where j.id = c.value ->> 'job_id'
  and j.run_id = c.value ->> 'run_id'
returning id;
