-- Adds an API key.
-- Differs: instants have a type, and a list of roles is jsonb.
insert into cortex.api_key (id, tenant_id, name, prefix, hash, roles, user_account_id, created_by, expires_at)
values (:id, :tenant_id, :name, :prefix, :hash, cast(:roles as jsonb), :user_id, :created_by,
  :now + make_interval(secs => cast(:ttl_seconds as double precision)));
