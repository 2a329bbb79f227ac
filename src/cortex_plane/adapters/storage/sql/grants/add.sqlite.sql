-- Adds a grant.
-- Differs: instants are converted there.
insert into cortex.execution_grant
  (id, tenant_id, user_account_id, billing_account_id, scopes, expires_at, max_uses, created_by, created_at)
values (:id, :tenant_id, :user_account_id, :billing_account_id, :scopes, :expires_at, :max_uses, :created_by, :now);
