-- How long a job was due before its first run began.
-- Differs: instants have a type.
select cast(extract(epoch from started_at - greatest(queued_at, run_at)) as double precision) as seconds
from cortex.job
where id = :id
  and started_at is not null;
