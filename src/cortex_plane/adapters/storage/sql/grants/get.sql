-- One grant as it stands.
select g.id, g.tenant_id, t.name as tenant, g.user_account_id, g.billing_account_id, b.name as billing_account, g.scopes, g.expires_at,
  g.max_uses, g.uses, g.revoked_at, g.revoked_by, g.revoke_reason, g.created_by, g.created_at
from cortex.execution_grant g
join cortex.tenant t on t.id = g.tenant_id
join cortex.billing_account b on b.id = g.billing_account_id
where g.id = :id;
