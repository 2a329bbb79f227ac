-- Enables an endpoint. No row means that it is unknown, or enabled already.
update cortex.webhook_endpoint
set enabled = true, disabled_at = null, disabled_reason = null
where id = :id and not enabled
returning id;
