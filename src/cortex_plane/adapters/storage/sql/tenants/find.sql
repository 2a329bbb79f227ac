-- The id of one tenant.
select id
from cortex.tenant
where name = :name;
