-- The newest requests of a tenant before :before, closed ones included.
select id
from cortex.approval_request
where tenant_id = :tenant_id
  and id < :before
order by id desc
limit :limit;
