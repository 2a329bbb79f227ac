-- The groups of a tenant, by name.
select id, tenant_id, name, created_at
from cortex.user_group
where tenant_id = :tenant_id
order by name;
