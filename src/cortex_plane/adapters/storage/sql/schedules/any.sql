-- Whether there are schedules at all.
select 1 as found
from cortex.schedule
limit 1;
