-- Adds an endpoint.
insert into cortex.webhook_endpoint (id, tenant_id, url, secret, events, description, allow_private, created_by, created_at)
values (:id, :tenant_id, :url, :secret, :events, :description, :allow_private, :created_by, :now);
