-- The newest requests before :before, closed ones included.
select id
from cortex.approval_request
where id < :before
order by id desc
limit :limit;
