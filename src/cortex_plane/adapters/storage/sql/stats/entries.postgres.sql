-- The first ready entries of one agent in a queue, in order, but for those of tenants that wait apart.
-- Differs: yes and no have a type of their own here, and a partial index fits only what is written as it is.
select job_id, tenant_id, job_type, rank, position, created_at, serial_key
from cortex.queue_entry
where queue = :queue
  and job_type = :job_type
  and state = 'ready'
  and not by_tenant
order by rank, position, created_at, job_id
limit :limit;
