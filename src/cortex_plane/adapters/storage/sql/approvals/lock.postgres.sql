-- Locks a request.
-- Differs: the lock.
select id
from cortex.approval_request
where id = :id
for update;
