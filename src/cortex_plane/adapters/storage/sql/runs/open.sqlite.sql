-- The open runs of a worker among those that it asked for: what a claim whose answer was lost has brought.
-- Differs: a list of ids is JSON here.
select j.id as job_id, j.run_id, j.job_type, j.queue, j.tenant_id, j.payload, j.attempt, j.retry_count, j.max_retries, j.crash_count,
  j.retry_policy, j.timeout_seconds, coalesce(j.error ->> 'type' = 'WorkerLost', false) as suspected, j.checkpoint is not null as resumes
from cortex.job_run r
join cortex.job j on j.id = r.job_id and j.run_id = r.id
where r.worker_id = :worker_id
  and r.status = 'RUNNING'
  and coalesce(j.note ->> 'claimed_as', r.id) in (select value from json_each(:run_ids));
