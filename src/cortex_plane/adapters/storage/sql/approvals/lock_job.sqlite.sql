-- The job that a request belongs to.
-- Differs: there is nothing to lock.
select job_id as id
from cortex.approval_request
where id = :id;
