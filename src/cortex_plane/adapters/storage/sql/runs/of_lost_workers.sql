-- Open runs whose worker was declared LOST, a small batch, with what is needed to decide about their jobs.
select j.id as job_id, j.run_id, j.job_type, j.queue, j.tenant_id, j.payload, j.attempt, j.retry_count, j.max_retries, j.crash_count,
  j.retry_policy, j.timeout_seconds,
  r.worker_id, r.claimed_together, a.skill_config as agent_config
from cortex.worker w
join cortex.job_run r on r.worker_id = w.id and r.status = 'RUNNING'
join cortex.job j on j.id = r.job_id and j.run_id = r.id
join cortex.agent a on a.id = j.agent_id
where w.status = 'LOST'
  and w.ended_at is null
order by j.id
limit :limit;
