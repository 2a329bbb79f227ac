-- Runs that have not ended, newest first, of a tenant and of a worker where that is asked for.
select id, job_id, attempt, worker_id, status, started_at, finished_at, exit_code, error, artifacts, log_path, params_snapshot
from cortex.job_run
where status = 'RUNNING'
  and id < :before
  and queue <> 'cortex'
  and (cast(:tenant_id as text) is null or cast(tenant_id as text) = cast(:tenant_id as text))
  and (cast(:worker_id as text) is null or cast(worker_id as text) = cast(:worker_id as text))
order by id desc
limit :limit;
