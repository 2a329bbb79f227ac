-- The newest jobs before :before that ended CANCELLED, found through their last line of history.
-- Differs: here the join needs no fence.
select j.id, j.job_type, j.queue, j.status, j.priority, j.attempt, j.wait_reason, j.error_message, j.created_at, j.updated_at,
  j.finished_at
from cortex.job_history h
join cortex.job j on j.id = h.job_id
where h.new_status = 'CANCELLED'
  and h.job_id < :before
  and (cast(:queue as text) is null or j.queue = cast(:queue as text))
  and (cast(:agent_id as text) is null or cast(j.agent_id as text) = cast(:agent_id as text))
order by h.job_id desc
limit :limit;
