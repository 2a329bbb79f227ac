-- Adds a grant.
-- Differs: instants are converted here.
insert into cortex.execution_grant (id, tenant_id, user_account_id, billing_account_id, scopes, expires_at, max_uses, created_by)
values (cast(:id as uuid), cast(:tenant_id as uuid), cast(:user_account_id as uuid), cast(:billing_account_id as uuid),
  cast(:scopes as jsonb), cortex.instant(cast(:expires_at as bigint)), cast(:max_uses as int), cast(:created_by as text));
