-- The newest jobs before :before that ended COMPLETED, as most do: the newest of all are looked through.
select j.id, j.job_type, j.queue, j.status, j.priority, j.attempt, j.wait_reason, j.error_message, j.created_at, j.updated_at,
  j.finished_at
from cortex.job j
where j.id < :before
  and (cast(:queue as text) is null or j.queue = cast(:queue as text))
  and j.status = 'COMPLETED'
order by j.id desc
limit :limit;
