-- Where a waiting job stands. It is locked before its job is, as a claim does.
-- Differs: the lock.
select job_id, queue, rank, position, created_at, tenant_id
from cortex.queue_entry
where job_id = cast(:id as uuid)
for update;
