-- Locks the job that a request belongs to: before the request, as whoever cancels the job does.
-- Differs: the lock.
select j.id
from cortex.job j
where j.id = (select r.job_id from cortex.approval_request r where r.id = :id)
for update of j;
