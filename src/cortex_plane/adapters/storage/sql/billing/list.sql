-- All billing accounts, or those of one tenant, by name.
select b.id, b.tenant_id, t.name as tenant, b.name, b.default_virtual_key_id, b.created_at
from cortex.billing_account b
join cortex.tenant t on t.id = b.tenant_id
where cast(:tenant_id as text) is null or cast(b.tenant_id as text) = cast(:tenant_id as text)
order by t.name, b.name;
