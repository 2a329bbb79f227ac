-- Makes a billing account, unless its tenant has one of that name.
insert into cortex.billing_account (id, tenant_id, name, default_virtual_key_id, created_at)
values (:id, :tenant_id, :name, :virtual_key_id, :now)
on conflict (tenant_id, name) do nothing;
