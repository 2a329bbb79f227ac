-- The newest jobs before :before that wait in the queue, in one of the states PENDING and RETRY.
select j.id, j.job_type, j.queue, j.status, j.priority, j.attempt, j.wait_reason, j.error_message, j.created_at, j.updated_at,
  j.finished_at
from cortex.queue_entry e
join cortex.job j on j.id = e.job_id
where e.job_id < :before
  and (cast(:queue as text) is null or j.queue = cast(:queue as text))
  and (cast(:agent_id as text) is null or cast(j.agent_id as text) = cast(:agent_id as text))
  and cast(j.status as text) = cast(:status as text)
order by e.job_id desc
limit :limit;
