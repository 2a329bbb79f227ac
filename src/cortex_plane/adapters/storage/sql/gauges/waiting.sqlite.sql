-- How many jobs wait in each queue, by state, and for how long the oldest has been due.
-- Differs: instants are numbers.
select queue, state, count(*) as jobs, (:now - min(due_at)) / 1000000.0 as seconds
from cortex.queue_entry
group by queue, state;
