-- Every run of one job, in order.
select id, job_id, attempt, worker_id, status, started_at, finished_at, exit_code, error, artifacts, log_path, params_snapshot
from cortex.job_run
where job_id = :id
order by attempt, started_at;
