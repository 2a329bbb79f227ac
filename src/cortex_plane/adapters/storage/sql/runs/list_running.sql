-- Runs that have not ended, newest first, of one worker if that is asked for.
select id, job_id, attempt, worker_id, status, started_at, finished_at, exit_code, error, artifacts, log_path, params_snapshot
from cortex.job_run
where status = 'RUNNING'
  and (cast(:worker_id as text) is null or cast(worker_id as text) = cast(:worker_id as text))
order by id desc
limit :limit;
