-- At most five grants whose ids begin alike.
select id
from cortex.execution_grant
where id between :low and :high
order by id
limit 5;
