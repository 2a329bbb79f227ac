-- Open runs whose worker was declared LOST, a small batch, with what is needed to decide about their jobs.
-- Oldest first: so the newest of a worker stays known as such until all others are rescued.
select j.id as job_id, j.run_id, j.job_type, j.queue, j.tenant_id, j.payload, j.attempt, j.retry_count, j.max_retries, j.crash_count,
  j.retry_policy, j.timeout_seconds, coalesce(j.error ->> 'type' = 'WorkerLost', false) as suspected, j.checkpoint is not null as resumes,
  r.worker_id, r.claimed_together,
  not exists (
    select 1 from cortex.job_run later
    where later.worker_id = r.worker_id and later.status = 'RUNNING' and later.id > r.id) as newest,
  a.skill_config as agent_config
from cortex.worker w
cross join cortex.job_run r
cross join cortex.job j
cross join cortex.agent a
where w.status = 'LOST'
  and w.ended_at is null
  and r.worker_id = w.id
  and r.status = 'RUNNING'
  and j.id = r.job_id
  and j.run_id = r.id
  and a.id = j.agent_id
order by r.id
limit :limit;
