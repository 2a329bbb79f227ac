-- Removes an endpoint. No row means that there was none.
delete from cortex.webhook_endpoint
where id = :id
returning id;
