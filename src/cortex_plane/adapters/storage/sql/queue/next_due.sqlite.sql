-- In how many seconds the next entry falls due; no row when none waits.
-- Differs: how instants are subtracted.
select (due_at - :now) / 1000000.0 as seconds
from cortex.queue_entry
where state = 'later'
order by due_at
limit 1;
