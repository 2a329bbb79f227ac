-- name: add_key [postgres]
-- Adds an API key. One that is made by a key counts as made by the maker of that key, however many keys stand between.
-- Differs: instants have a type, and a list of roles is jsonb.
insert into cortex.api_key (id, tenant_id, name, prefix, hash, roles, user_account_id, created_by, expires_at)
values (:id, :tenant_id, :name, :prefix, :hash, cast(:roles as jsonb), :user_id,
  coalesce(
    (select k.created_by from cortex.api_key k where k.prefix = substr(:created_by, 5) and :created_by like 'key:%' limit 1),
    :created_by),
  :now + make_interval(secs => cast(:ttl_seconds as double precision)));

-- name: add_key [sqlite]
-- Adds an API key. One that is made by a key counts as made by the maker of that key, however many keys stand between.
-- Differs: instants are numbers, and a list of roles is text.
insert into cortex.api_key (id, tenant_id, name, prefix, hash, roles, user_account_id, created_by, created_at, expires_at)
values (:id, :tenant_id, :name, :prefix, :hash, :roles, :user_id,
  coalesce(
    (select k.created_by from cortex.api_key k where k.prefix = substr(:created_by, 5) and :created_by like 'key:%' limit 1),
    :created_by),
  :now,
  :now + cast(:ttl_seconds * 1000000 as integer));

-- name: close_sign_in
-- Signs a browser out.
delete from cortex.login_session
where token_hash = :hash
returning token_hash;

-- name: has_credentials
-- One row when anybody could get in.
select 1 as found
where exists (
    select 1 from cortex.api_key k where k.revoked_at is null and (k.expires_at is null or k.expires_at > :now)
  )
  or exists (
    select 1
    from cortex.user_password p
    join cortex.user_account u on u.id = p.user_account_id
    join cortex.user_role r on r.user_account_id = u.id
    where u.disabled_at is null
  );

-- name: key [postgres]
-- The key with this hash, if it works, with one row for each role of its owner, and whether its last use was noted more than a minute ago.
-- Differs: instants have a type.
select k.prefix, k.roles, k.tenant_id, t.name as tenant, k.user_account_id, u.name as user_name, u.owner_id, k.created_by,
  r.role, r.tenant_id as role_tenant_id, rt.name as role_tenant,
  k.last_used_at is null or k.last_used_at < :now - interval '1 minute' as is_stale
from cortex.api_key k
left join cortex.tenant t on t.id = k.tenant_id
left join cortex.user_account u on u.id = k.user_account_id
left join cortex.user_role r on r.user_account_id = u.id
left join cortex.tenant rt on rt.id = r.tenant_id
where k.hash = :hash
  and k.revoked_at is null
  and (k.expires_at is null or k.expires_at > :now)
  and (u.id is null or u.disabled_at is null);

-- name: key [sqlite]
-- The key with this hash, if it works, with one row for each role of its owner, and whether its last use was noted more than a minute ago.
-- Differs: instants are numbers.
select k.prefix, k.roles, k.tenant_id, t.name as tenant, k.user_account_id, u.name as user_name, u.owner_id, k.created_by,
  r.role, r.tenant_id as role_tenant_id, rt.name as role_tenant,
  k.last_used_at is null or k.last_used_at < :now - 60000000 as is_stale
from cortex.api_key k
left join cortex.tenant t on t.id = k.tenant_id
left join cortex.user_account u on u.id = k.user_account_id
left join cortex.user_role r on r.user_account_id = u.id
left join cortex.tenant rt on rt.id = r.tenant_id
where k.hash = :hash
  and k.revoked_at is null
  and (k.expires_at is null or k.expires_at > :now)
  and (u.id is null or u.disabled_at is null);

-- name: key_used [postgres]
-- Notes that a key was used, once a minute at most.
-- Differs: instants have a type.
update cortex.api_key
set last_used_at = :now
where hash = :hash
  and (last_used_at is null or last_used_at < :now - interval '1 minute');

-- name: key_used [sqlite]
-- Notes that a key was used, once a minute at most.
-- Differs: instants are numbers.
update cortex.api_key
set last_used_at = :now
where hash = :hash
  and (last_used_at is null or last_used_at < :now - 60000000);

-- name: list_keys
-- All keys, or those of one tenant, oldest first. Without their hashes.
select k.id, k.name, k.prefix, k.roles, k.tenant_id, t.name as tenant, k.user_account_id, k.created_by, k.created_at,
  k.last_used_at, k.expires_at, k.revoked_at
from cortex.api_key k
left join cortex.tenant t on t.id = k.tenant_id
where cast(:tenant_id as text) is null or cast(k.tenant_id as text) = cast(:tenant_id as text)
order by k.id;

-- name: open_sign_in [postgres]
-- Signs a browser in. No row: the account was disabled, perhaps while the password was compared.
-- Differs: instants have a type; the account is locked, so that disabling it comes wholly before this, or ends what is made here.
insert into cortex.login_session (token_hash, user_account_id, expires_at)
select :hash, u.id, :now + make_interval(secs => cast(:ttl_seconds as double precision))
from cortex.user_account u
where u.id = :user_id
  and u.disabled_at is null
for share
returning token_hash;

-- name: open_sign_in [sqlite]
-- Signs a browser in. No row: the account was disabled, perhaps while the password was compared.
-- Differs: instants are numbers.
insert into cortex.login_session (token_hash, user_account_id, created_at, last_used_at, expires_at)
select :hash, u.id, :now, :now, :now + cast(:ttl_seconds * 1000000 as integer)
from cortex.user_account u
where u.id = :user_id
  and u.disabled_at is null
returning token_hash;

-- name: reissue_key
-- Gives a key that was added, and never shown, a new secret. No row means that it was not added.
update cortex.api_key
set prefix = :prefix, hash = :hash
where id = :id
returning id;

-- name: revoke_key
-- Takes a key back. No row means that it is unknown, or was taken back already.
update cortex.api_key
set revoked_at = :now
where id = :id and revoked_at is null
returning id;

-- name: sign_in [postgres]
-- Who is signed in with this cookie, with one row for each of their roles, and whether its last use was noted a minute ago.
-- Differs: instants have a type.
select u.id, u.name, r.role, r.tenant_id, t.name as tenant, s.last_used_at < :now - interval '1 minute' as is_stale
from cortex.login_session s
join cortex.user_account u on u.id = s.user_account_id
left join cortex.user_role r on r.user_account_id = u.id
left join cortex.tenant t on t.id = r.tenant_id
where s.token_hash = :hash
  and s.expires_at > :now
  and u.disabled_at is null
order by r.role, t.name;

-- name: sign_in [sqlite]
-- Who is signed in with this cookie, with one row for each of their roles, and whether its last use was noted a minute ago.
-- Differs: instants are numbers.
select u.id, u.name, r.role, r.tenant_id, t.name as tenant, s.last_used_at < :now - 60000000 as is_stale
from cortex.login_session s
join cortex.user_account u on u.id = s.user_account_id
left join cortex.user_role r on r.user_account_id = u.id
left join cortex.tenant t on t.id = r.tenant_id
where s.token_hash = :hash
  and s.expires_at > :now
  and u.disabled_at is null
order by r.role, t.name;

-- name: sign_in_used [postgres]
-- Notes that a cookie was used, once a minute at most.
-- Differs: instants have a type.
update cortex.login_session
set last_used_at = :now
where token_hash = :hash
  and last_used_at < :now - interval '1 minute';

-- name: sign_in_used [sqlite]
-- Notes that a cookie was used, once a minute at most.
-- Differs: instants are numbers.
update cortex.login_session
set last_used_at = :now
where token_hash = :hash
  and last_used_at < :now - 60000000;
