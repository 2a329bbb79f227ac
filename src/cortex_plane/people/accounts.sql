-- name: add
-- Adds a person. No row means that the name is taken.
insert into cortex.user_account (id, name, display_name, email, created_at)
values (:id, :name, :display_name, :email, :now)
on conflict (name) do nothing
returning id;

-- name: find
-- The person of this name, with one row for each of their roles, or one without.
select u.id, u.name, u.display_name, u.email, u.created_at, u.disabled_at, u.owner_id, r.role, r.tenant_id, t.name as tenant
from cortex.user_account u
left join cortex.user_role r on r.user_account_id = u.id
left join cortex.tenant t on t.id = r.tenant_id
where u.name = :name
order by r.role, t.name;

-- name: give_role
-- Gives a person a role. No row means that they have it.
insert into cortex.user_role (user_account_id, tenant_id, role)
values (:id, :tenant_id, :role)
on conflict do nothing
returning role;

-- name: password
-- The hash of a person's password, if they may sign in.
select p.hash
from cortex.user_password p
join cortex.user_account u on u.id = p.user_account_id
where p.user_account_id = :id
  and u.disabled_at is null;

-- name: set_password
-- Sets a person's password.
insert into cortex.user_password (user_account_id, hash, changed_at)
values (:id, :hash, :now)
on conflict (user_account_id) do update set hash = excluded.hash, changed_at = excluded.changed_at;

-- name: sign_out
-- Signs a person out everywhere.
delete from cortex.login_session
where user_account_id = :id;

-- name: take_role
-- Takes a role from a person. No row means that they do not have it.
delete from cortex.user_role
where user_account_id = :id
  and role = :role
  and (tenant_id = :tenant_id or (cast(:tenant_id as text) is null and tenant_id is null))
returning role;
