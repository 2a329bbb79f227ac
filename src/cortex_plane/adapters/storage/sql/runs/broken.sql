-- Jobs that are RUNNING though their run is closed or missing. The triggers make that impossible; a damaged database may hold it.
select j.id as job_id, j.run_id, j.job_type, j.queue, j.tenant_id, j.payload, j.attempt, j.retry_count, j.max_retries, j.crash_count,
  j.retry_policy, j.timeout_seconds, coalesce(j.error ->> 'type' = 'WorkerLost', false) as suspected, j.checkpoint is not null as resumes,
  j.worker_id, r.status as run_status, r.error as run_error, a.skill_config as agent_config
from cortex.job j
left join cortex.job_run r on r.job_id = j.id and r.id = j.run_id
join cortex.agent a on a.id = j.agent_id
where j.status = 'RUNNING'
  and (r.id is null or r.status <> 'RUNNING')
order by j.id
limit :limit;
