-- A request, if there is one.
-- Differs: there is nothing to lock.
select id
from cortex.approval_request
where id = :id;
