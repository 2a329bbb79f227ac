-- The ids that begin with a prefix, so that people need not type a whole one.
select id
from cortex.approval_request
where id between :low and :high
order by id
limit 5;
