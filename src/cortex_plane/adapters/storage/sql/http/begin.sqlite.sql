-- Begins a request, unless it is under way or answered. The seed of a request that died with its server is kept.
-- Differs: instants are numbers.
insert into cortex.http_request (tenant_id, caller, key, request_hash, seed, created_at, under_way_until, expires_at)
values (:tenant_id, :caller, :key, :request_hash, :seed, :now,
  :now + cast(:under_way_seconds * 1000000 as integer), :now + cast(:kept_seconds * 1000000 as integer))
on conflict (tenant_id, caller, key) do update
set seed = iif(http_request.expires_at <= :now, excluded.seed, http_request.seed),
  request_hash = excluded.request_hash,
  status = null,
  body = null,
  created_at = excluded.created_at,
  under_way_until = excluded.under_way_until,
  expires_at = excluded.expires_at
where http_request.expires_at <= :now
  or (http_request.status is null and http_request.under_way_until <= :now
    and http_request.request_hash = excluded.request_hash)
returning seed;
