-- The members that have not begun, in their order.
-- Differs: there is nothing to lock.
select j.id
from cortex.job j
where j.group_id = :id
  and j.status = 'PENDING'
  and j.retry_of is null
order by j.id;
