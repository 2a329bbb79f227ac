-- Spaces the waiting jobs of one queue and priority by 100 again, in their order.
-- Differs: there is nothing to lock.
with numbered as materialized (
  select job_id, 100 * row_number() over (order by position, created_at, job_id) as position
  from cortex.queue_entry where queue = :queue and rank = :rank
)
update cortex.job as j
set position = n.position, updated_at = max(:now, j.updated_at)
from numbered n
where j.id = n.job_id and j.status in ('PENDING', 'RETRY');
