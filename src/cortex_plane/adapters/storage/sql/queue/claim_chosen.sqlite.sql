-- Claims for one worker the jobs that were chosen for it, with the run id of each.
-- Only on SQLite: PostgreSQL does this inside its function; here choosing and claiming share the writer's transaction.
with taken (job_id, run_id, together) as materialized (
  select value ->> 0, value ->> 1, json_array_length(:chosen) from json_each(:chosen)
  where exists (select 1 from cortex.worker where id = :worker_id and status = 'LIVE')
)
update cortex.job as j
set status = 'RUNNING',
  run_id = coalesce(j.run_id, t.run_id),
  worker_id = :worker_id,
  claimed_together = t.together,
  worker_job_id = null,
  attempt = j.attempt + (j.run_id is null),
  next_retry_at = null,
  wait_reason = null,
  started_at = coalesce(j.started_at, max(:now, j.updated_at)),
  updated_at = max(:now, j.updated_at),
  revision = j.revision + (j.run_id is null),
  cause = 'claim',
  actor = :actor,
  note = iif(j.run_id is null, null, json_object('claimed_as', t.run_id))
from taken t
where j.id = t.job_id
  and (j.status in ('PENDING', 'RETRY') or (j.status = 'RUNNING' and j.worker_id is null))
returning id as job_id, run_id, job_type, queue, tenant_id, payload, attempt, retry_count, max_retries, crash_count,
  retry_policy, timeout_seconds, error ->> 'type' is 'WorkerLost' as suspected, checkpoint is not null as resumes,
  coalesce(note ->> 'claimed_as', run_id) as claimed_as;
