-- Keeps the answer to a request, for whoever began it.
update cortex.http_request
set status = :status, body = :body
where tenant_id = :tenant_id
  and caller = :caller
  and key = :key
  and seed = :seed
  and status is null;
