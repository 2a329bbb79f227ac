-- In how many seconds the next entry falls due; no row when none waits.
-- Differs: how instants are subtracted.
select extract(epoch from due_at - cortex.now())::double precision as seconds
from cortex.queue_entry
where state = 'later'
order by due_at
limit 1;
