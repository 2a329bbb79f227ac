-- Runs of a tenant that have not ended, newest first, or the one that is asked for.
-- Differs: PostgreSQL wants to be told the types.
select id, job_id, attempt, worker_id, status, started_at, finished_at, exit_code, error, artifacts, log_path, params_snapshot
from cortex.job_run
where status = 'RUNNING'
  and tenant_id = :tenant_id
  and id = coalesce(:id, id)
  and id < :before
order by id desc
limit :limit;
