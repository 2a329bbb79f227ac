-- Groups whose ids lie between two, at most five.
select id
from cortex.job_group
where id between :low and :high
order by id
limit 5;
