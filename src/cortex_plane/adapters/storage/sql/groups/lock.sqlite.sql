-- Finds a group. No row means that there is none.
-- Differs: whoever writes is alone, so there is nothing to lock.
select id
from cortex.job_group
where id = :id;
