-- Disables an endpoint. No row means that it is unknown, or disabled already.
update cortex.webhook_endpoint
set enabled = false, disabled_at = :now, disabled_reason = :reason
where id = :id and enabled
returning id;
