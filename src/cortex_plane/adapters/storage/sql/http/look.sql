-- What is known of a request.
select request_hash, status, body
from cortex.http_request
where tenant_id = :tenant_id
  and caller = :caller
  and key = :key;
