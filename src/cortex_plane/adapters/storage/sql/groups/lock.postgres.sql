-- Locks a group: one look at its members at a time. No row means that there is none.
-- Differs: the lock.
select id
from cortex.job_group
where id = cast(:id as uuid)
for update;
