-- What a delivery needs to know of its endpoint. The only statement that reads a secret.
select tenant_id, url, secret, enabled, allow_private
from cortex.webhook_endpoint
where id = :id;
