-- All endpoints, or those of one tenant, oldest first. Without their secrets.
select e.id, e.tenant_id, t.name as tenant, e.url, e.events, e.enabled, e.description, e.allow_private, e.created_by,
  e.created_at, e.disabled_at, e.disabled_reason
from cortex.webhook_endpoint e
join cortex.tenant t on t.id = e.tenant_id
where cast(:tenant_id as text) is null or cast(e.tenant_id as text) = cast(:tenant_id as text)
order by e.id;
