-- The waiting jobs of a tenant, or of a queue that shares fairly, go into lanes of their own.
update cortex.queue_entry
set by_tenant = true
where by_tenant = false
  and queue <> 'cortex'
  and ((:scope = 'tenant' and cast(tenant_id as text) = :name) or (:scope = 'queue' and queue = :name));
