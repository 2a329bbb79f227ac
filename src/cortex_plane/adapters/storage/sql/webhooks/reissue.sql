-- Gives an endpoint that was added, and whose secret was never shown, a new one. No row means that it was not added.
update cortex.webhook_endpoint
set secret = :secret
where id = :id
returning id;
