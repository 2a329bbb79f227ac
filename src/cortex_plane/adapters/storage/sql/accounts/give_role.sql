-- Gives a person a role. No row means that they have it.
insert into cortex.user_role (user_account_id, tenant_id, role)
values (:id, :tenant_id, :role)
on conflict do nothing
returning role;
