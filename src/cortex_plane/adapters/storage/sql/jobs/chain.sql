-- The retry chain that a job belongs to, from the first job to the last.
with recursive back (id, retry_of, place) as (
  select j.id, j.retry_of, 0 from cortex.job j where j.id = :id
  union all
  select j.id, j.retry_of, b.place - 1 from back b join cortex.job j on j.id = b.retry_of
), chain (id, place) as (
  select id, place from back
  union all
  select r.id, c.place + 1 from chain c join cortex.job r on r.retry_of = c.id where c.place >= 0
)
select j.id, j.job_type, j.queue, j.status, j.priority, j.attempt, j.wait_reason, j.error_message, j.created_at, j.updated_at,
  j.finished_at
from chain c
join cortex.job j on j.id = c.id
order by c.place;
