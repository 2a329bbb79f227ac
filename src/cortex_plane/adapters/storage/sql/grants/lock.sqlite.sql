-- Finds a grant. No row means that there is none.
-- Differs: whoever writes is alone, so there is nothing to lock.
select id
from cortex.execution_grant
where id = :id;
