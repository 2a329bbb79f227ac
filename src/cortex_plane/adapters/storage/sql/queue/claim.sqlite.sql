-- Claims ready jobs for one worker, in queue order, as many as run ids are given.
-- Differs: with one writer there is nothing to lock or skip. Each queue and agent is read through its own part of the index.
with lane (queue, job_type) as (
  select q.value, t.value from json_each(:queues) q cross join json_each(:job_types) t
  where (q.value = 'cortex') = (t.value glob 'cortex.*')
), candidate (job_id) as (
  select c.value
  from lane
  cross join json_each((
    select json_group_array(job_id) from (
      select e.job_id from cortex.queue_entry e
      where e.queue = lane.queue and e.job_type = lane.job_type and e.state = 'ready' and e.by_tenant = 0
      order by e.rank, e.position, e.created_at, e.job_id
      limit json_array_length(:run_ids)))) c
), placed as (
  select e.job_id,
    row_number() over in_order as place,
    sum(e.alone) over in_order as alone_so_far
  from candidate c
  cross join cortex.queue_entry e on e.job_id = c.job_id
  window in_order as (order by e.rank, e.position, e.created_at, e.job_id)
), run (place, id) as materialized (
  select key + 1, value from json_each(:run_ids)
), taken as materialized (
  select p.job_id, r.id as run_id, count(*) over () as together
  from placed p
  join run r on r.place = p.place
  where (p.place = 1 or p.alone_so_far = 0)
    and exists (select 1 from cortex.worker where id = :worker_id and status = 'LIVE')
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
