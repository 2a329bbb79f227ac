-- The trace that a job belongs to, and that of the job that it retries.
select trace_id, (select p.trace_id from cortex.job p where p.id = j.retry_of) as retried
from cortex.job j
where j.id = :id;
