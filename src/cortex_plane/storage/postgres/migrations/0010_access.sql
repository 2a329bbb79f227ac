-- What all servers of one database know in common: how often something was tried, and what was answered.

create table cortex.rate_limit (
  bucket text primary key check (bucket <> ''),
  hits bigint not null check (hits >= 0),
  window_until timestamptz not null
);
create index rate_limit_expiry on cortex.rate_limit (window_until);

create table cortex.http_request (
  tenant_id uuid not null references cortex.tenant (id),
  caller text not null,
  key text not null check (length(key) between 1 and 255),
  request_hash text not null check (length(request_hash) = 64),
  seed uuid not null,
  status integer,
  body text,
  created_at timestamptz not null default cortex.now(),
  under_way_until timestamptz not null,
  expires_at timestamptz not null,
  primary key (tenant_id, caller, key),
  constraint answered_as_a_whole check ((status is null) = (body is null))
);
create index http_request_expiry on cortex.http_request (expires_at);

comment on table cortex.rate_limit is 'How often something was tried, in windows of time.';
comment on column cortex.rate_limit.bucket is 'What is counted, such as sign-ins of one name.';
comment on column cortex.rate_limit.hits is 'How often in this window.';
comment on column cortex.rate_limit.window_until is 'When counting begins anew.';

comment on table cortex.http_request is 'Requests that came with an Idempotency-Key, and what was answered.';
comment on column cortex.http_request.tenant_id is 'The tenant that it was about.';
comment on column cortex.http_request.caller is 'Who asked.';
comment on column cortex.http_request.key is 'The Idempotency-Key.';
comment on column cortex.http_request.request_hash is 'SHA-256 of method, path and body: the same key with another is refused.';
comment on column cortex.http_request.seed is 'What ids are made from, so that doing it again makes the same ones.';
comment on column cortex.http_request.status is 'What was answered; null while nothing was.';
comment on column cortex.http_request.body is 'The answer, without secrets.';
comment on column cortex.http_request.created_at is 'When it first came.';
comment on column cortex.http_request.under_way_until is 'Until then whoever began it is waited for.';
comment on column cortex.http_request.expires_at is 'Until when the answer is kept.';
