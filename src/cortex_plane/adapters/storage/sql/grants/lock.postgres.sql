-- Locks a grant, so that it is neither revoked nor used by others meanwhile. No row means that there is none.
-- Differs: the lock.
select id
from cortex.execution_grant
where id = cast(:id as uuid)
for update;
