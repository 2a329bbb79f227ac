-- Adds an API key.
-- Differs: instants are numbers, and a list of roles is text.
insert into cortex.api_key (id, tenant_id, name, prefix, hash, roles, user_account_id, created_by, created_at, expires_at)
values (:id, :tenant_id, :name, :prefix, :hash, :roles, :user_id, :created_by, :now,
  :now + cast(:ttl_seconds * 1000000 as integer));
