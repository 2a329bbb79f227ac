-- One run of one job.
select id, job_id, attempt, worker_id, status, started_at, finished_at, exit_code, error, artifacts, log_path, params_snapshot
from cortex.job_run
where job_id = :job_id
  and id = :id;
