-- The newest open requests before :before.
select id
from cortex.approval_request
where outcome is null
  and id < :before
  and (cast(:tenant_id as text) is null or cast(tenant_id as text) = cast(:tenant_id as text))
order by id desc
limit :limit;
