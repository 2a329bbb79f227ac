-- Begins a request, unless it is under way or answered. The seed of a request that died with its server is kept.
-- Differs: instants have a type.
insert into cortex.http_request as r (tenant_id, caller, key, request_hash, seed, under_way_until, expires_at)
values (:tenant_id, :caller, :key, :request_hash, :seed,
  :now + make_interval(secs => cast(:under_way_seconds as double precision)),
  :now + make_interval(secs => cast(:kept_seconds as double precision)))
on conflict (tenant_id, caller, key) do update
set seed = case when r.expires_at <= :now then excluded.seed else r.seed end,
  request_hash = excluded.request_hash,
  status = null,
  body = null,
  created_at = excluded.created_at,
  under_way_until = excluded.under_way_until,
  expires_at = excluded.expires_at
where r.expires_at <= :now
  or (r.status is null and r.under_way_until <= :now and r.request_hash = excluded.request_hash)
returning seed;
