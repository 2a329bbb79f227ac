-- How many entries each queue holds, by state.
select queue, state, count(*) as entries
from cortex.queue_entry
group by queue, state
order by queue, state;
