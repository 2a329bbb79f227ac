-- The group of this name in a tenant.
select id, tenant_id, name, created_at
from cortex.user_group
where tenant_id = :tenant_id
  and name = :name;
