-- Forgets a request that came to nothing, for whoever began it.
delete from cortex.http_request
where tenant_id = :tenant_id
  and caller = :caller
  and key = :key
  and seed = :seed
  and status is null;
