-- Of the newest :looked_at runs, of jobs before :before, those of a status and of a worker, where that is asked for.
select id, job_id, attempt, worker_id, status, started_at, finished_at, exit_code, error, artifacts, log_path, params_snapshot
from (
  select id, job_id, attempt, worker_id, status, started_at, finished_at, exit_code, error, artifacts, log_path, params_snapshot
  from cortex.job_run
  where job_id < :before
  order by job_id desc, id desc
  limit :looked_at
) as newest
where (cast(:status as text) is null or cast(status as text) = cast(:status as text))
  and (cast(:worker_id as text) is null or cast(worker_id as text) = cast(:worker_id as text))
order by job_id desc, id desc
limit :limit;
