-- How many jobs each worker runs.
select worker_id, count(*) as runs
from cortex.job_run
where status = 'RUNNING'
  and worker_id is not null
group by worker_id;
