-- Spaces the waiting jobs of one queue and priority by 100 again, in their order.
-- Differs: the entries are locked before the jobs, as a claim does.
with entry as materialized (
  select job_id, position, created_at from cortex.queue_entry where queue = :queue and rank = :rank for update
), numbered as materialized (
  select job_id, 100 * row_number() over (order by position, created_at, job_id) as position from entry
)
update cortex.job j
set position = n.position, updated_at = greatest(:now, j.updated_at)
from numbered n
where j.id = n.job_id and j.status in ('PENDING', 'RETRY');
