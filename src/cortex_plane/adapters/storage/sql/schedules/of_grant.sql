-- The schedules under a grant that are not paused, in the order in which they are locked.
select id
from cortex.schedule
where grant_id = :grant_id and enabled
order by id;
