-- What all servers of one database know in common: how often something was tried, and what was answered.

create table rate_limit (
  bucket text primary key check (bucket <> ''),
  hits integer not null check (hits >= 0),
  window_until integer not null
) strict;
create index rate_limit_expiry on rate_limit (window_until);

create table http_request (
  tenant_id text not null references tenant (id),
  caller text not null,
  key text not null check (length(key) between 1 and 255),
  request_hash text not null check (length(request_hash) = 64),
  seed text not null,
  status integer,
  body text,
  created_at integer not null,
  under_way_until integer not null,
  expires_at integer not null,
  primary key (tenant_id, caller, key),
  constraint answered_as_a_whole check ((status is null) = (body is null))
) strict;
create index http_request_expiry on http_request (expires_at);
