-- How long a job was due before its first run began.
-- Differs: instants are numbers.
select (started_at - max(queued_at, coalesce(run_at, queued_at))) / 1000000.0 as seconds
from cortex.job
where id = :id
  and started_at is not null;
