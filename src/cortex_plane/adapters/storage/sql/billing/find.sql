-- A tenant's billing account, by its name.
select b.id, b.tenant_id, t.name as tenant, b.name, b.default_virtual_key_id, b.created_at
from cortex.billing_account b
join cortex.tenant t on t.id = b.tenant_id
where b.tenant_id = :tenant_id and b.name = :name;
