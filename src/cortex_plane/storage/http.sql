-- name: answer
-- Keeps the answer to a request, for whoever began it.
update cortex.http_request
set status = :status, body = :body
where tenant_id = :tenant_id
  and caller = :caller
  and key = :key
  and seed = :seed
  and status is null;

-- name: begin [postgres]
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

-- name: begin [sqlite]
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

-- name: forget
-- Forgets a request that came to nothing, for whoever began it.
delete from cortex.http_request
where tenant_id = :tenant_id
  and caller = :caller
  and key = :key
  and seed = :seed
  and status is null;

-- name: hit [postgres]
-- Counts one more try; begins anew when the window has passed.
-- Differs: instants have a type.
insert into cortex.rate_limit as r (bucket, hits, window_until)
values (:bucket, 1, :now + make_interval(secs => cast(:window_seconds as double precision)))
on conflict (bucket) do update
set hits = case when r.window_until <= :now then 1 else r.hits + 1 end,
  window_until = case when r.window_until <= :now then excluded.window_until else r.window_until end
returning hits, cast(extract(epoch from window_until - :now) as double precision) as seconds_left;

-- name: hit [sqlite]
-- Counts one more try; begins anew when the window has passed.
-- Differs: instants are numbers.
insert into cortex.rate_limit (bucket, hits, window_until)
values (:bucket, 1, :now + cast(:window_seconds * 1000000 as integer))
on conflict (bucket) do update
set hits = iif(rate_limit.window_until <= :now, 1, rate_limit.hits + 1),
  window_until = iif(rate_limit.window_until <= :now, excluded.window_until, rate_limit.window_until)
returning hits, (window_until - :now) / 1000000.0 as seconds_left;

-- name: look
-- What is known of a request.
select request_hash, status, body
from cortex.http_request
where tenant_id = :tenant_id
  and caller = :caller
  and key = :key;

-- name: sweep_requests
-- Deletes answers that are over.
delete from cortex.http_request
where expires_at <= :now;

-- name: sweep_sign_ins
-- Deletes sign-ins that are over.
delete from cortex.login_session
where expires_at <= :now;

-- name: sweep_windows
-- Deletes windows of time that are over.
delete from cortex.rate_limit
where window_until <= :now;

-- name: take_back
-- Takes tries back that turned out not to count.
update cortex.rate_limit
set hits = case when hits > :hits then hits - :hits else 0 end
where bucket = :bucket;
