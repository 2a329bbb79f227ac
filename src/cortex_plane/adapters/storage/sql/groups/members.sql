-- The members of a group in their order, retries of them last.
select j.id, j.job_type, j.queue, j.status, j.attempt, j.retry_of, j.error_message, j.created_at, j.finished_at,
  exists (select 1 from cortex.queue_entry e where e.job_id = j.id and e.state = 'held') as held
from cortex.job j
where j.group_id = :id and j.id > :after
order by j.id
limit :limit;
