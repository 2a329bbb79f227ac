-- Where a waiting job stands.
-- Differs: there is nothing to lock.
select job_id, queue, rank, position, created_at, tenant_id
from cortex.queue_entry
where job_id = :id;
