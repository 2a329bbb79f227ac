-- In one queue and priority, the first job after a place, leaving out one job.
select job_id, queue, rank, position, created_at, tenant_id
from cortex.queue_entry
where queue = :queue
  and rank = :rank
  and (position, created_at, job_id) > (:position, :created_at, :anchor)
  and job_id <> :left_out
order by position, created_at, job_id
limit 1;
