-- Takes a role from a person. No row means that they do not have it.
delete from cortex.user_role
where user_account_id = :id
  and role = :role
  and (tenant_id = :tenant_id or (cast(:tenant_id as text) is null and tenant_id is null))
returning role;
