-- All keys, or those of one tenant, oldest first. Without their hashes.
select k.id, k.name, k.prefix, k.roles, k.tenant_id, t.name as tenant, k.user_account_id, k.created_by, k.created_at,
  k.last_used_at, k.expires_at, k.revoked_at
from cortex.api_key k
left join cortex.tenant t on t.id = k.tenant_id
where cast(:tenant_id as text) is null or cast(k.tenant_id as text) = cast(:tenant_id as text)
order by k.id;
