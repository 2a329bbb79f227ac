-- The key with this hash, if it works, and whether its last use was noted more than a minute ago.
-- Differs: instants have a type.
select k.prefix, k.roles, k.tenant_id, t.name as tenant, k.user_account_id, u.name as user_name,
  k.last_used_at is null or k.last_used_at < :now - interval '1 minute' as is_stale
from cortex.api_key k
left join cortex.tenant t on t.id = k.tenant_id
left join cortex.user_account u on u.id = k.user_account_id
where k.hash = :hash
  and k.revoked_at is null
  and (k.expires_at is null or k.expires_at > :now)
  and (u.id is null or u.disabled_at is null);
