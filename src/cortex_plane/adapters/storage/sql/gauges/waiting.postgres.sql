-- How many jobs wait in each queue, by state, and for how long the oldest has been due.
-- Differs: instants have a type.
select queue, cast(state as text) as state, count(*) as jobs,
  cast(extract(epoch from :now - min(due_at)) as double precision) as seconds
from cortex.queue_entry
group by queue, state;
