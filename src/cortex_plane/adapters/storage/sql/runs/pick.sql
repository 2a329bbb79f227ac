-- Those of the runs between two places that are as asked for. The plane's own are left out.
select id, job_id, attempt, worker_id, status, started_at, finished_at, exit_code, error, artifacts, log_path, params_snapshot
from cortex.job_run
where (job_id, id) < (:before_job_id, :before_id)
  and (job_id, id) >= (:last_job_id, :last_id)
  and queue <> 'cortex'
  and (cast(:tenant_id as text) is null or cast(tenant_id as text) = cast(:tenant_id as text))
  and (cast(:status as text) is null or cast(status as text) = cast(:status as text))
  and (cast(:worker_id as text) is null or cast(worker_id as text) = cast(:worker_id as text))
order by job_id desc, id desc
limit :limit;
