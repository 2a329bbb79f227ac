-- All tenants, by name.
select id, name, created_at
from cortex.tenant
order by name;
