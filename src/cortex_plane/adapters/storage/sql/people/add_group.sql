-- Adds a group of people. No row: the tenant has one of that name.
insert into cortex.user_group (id, tenant_id, name, created_at)
values (:id, :tenant_id, :name, :now)
on conflict (tenant_id, name) do nothing
returning id;
