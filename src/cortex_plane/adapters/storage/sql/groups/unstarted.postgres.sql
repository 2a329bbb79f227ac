-- The members that have not begun, in their order.
-- Differs: their entries are locked before the jobs, as a claim does; one that is just being claimed drops out.
select j.id
from cortex.queue_entry e
join cortex.job j on j.id = e.job_id
where j.group_id = cast(:id as uuid)
  and j.status = 'PENDING'
  and j.retry_of is null
order by j.id
for update of e;
