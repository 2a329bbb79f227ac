-- The first job of a queue, leaving out one.
select job_id, queue, rank, position, created_at, tenant_id
from cortex.queue_entry
where queue = :queue
  and job_id <> :left_out
order by rank, position, created_at, job_id
limit 1;
