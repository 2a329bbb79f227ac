-- The first ready entries of one agent in a queue, in order, but for those of tenants that wait apart.
select job_id, tenant_id, job_type, rank, position, created_at, serial_key
from cortex.queue_entry
where queue = :queue
  and job_type = :job_type
  and state = 'ready'
  and not by_tenant
order by rank, position, created_at, job_id
limit :limit;
