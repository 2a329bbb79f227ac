-- name: add_group
-- Adds a group of people. No row: the tenant has one of that name.
insert into cortex.user_group (id, tenant_id, name, created_at)
values (:id, :tenant_id, :name, :now)
on conflict (tenant_id, name) do nothing
returning id;

-- name: add_member
-- Puts somebody into a group. No row: they are in it.
insert into cortex.group_member (group_id, user_account_id)
values (:group_id, :user_id)
on conflict (group_id, user_account_id) do nothing
returning group_id;

-- name: add_session
-- Keeps the conversation that starts jobs. The same a second time changes nothing.
insert into cortex.session (id, tenant_id, user_account_id, agent_id, channel, created_at)
values (:id, :tenant_id, :user_id, :agent_id, :channel, :now)
on conflict (id) do nothing;

-- name: add_user
-- Adds a person. No row: the name is taken.
insert into cortex.user_account (id, name, display_name, email, owner_id, created_at)
values (:id, :name, :display_name, :email, :owner_id, :now)
on conflict (name) do nothing
returning id;

-- name: change_owner
-- Gives a service account to another admin. No row: it is theirs already, or it is a person.
update cortex.user_account
set owner_id = :owner_id
where id = :id
  and owner_id is not null
  and owner_id <> :owner_id
returning id;

-- name: channels
-- Where somebody is reached.
select id, user_account_id, channel_type, channel_user_id, created_at
from cortex.channel_mapping
where user_account_id = :user_id
order by channel_type, id;

-- name: disable_user
-- From now on the account may do nothing. No row: that changed nothing.
update cortex.user_account
set disabled_at = :now
where id = :id
  and disabled_at is null
returning id;

-- name: enable_user
-- Gives an account back what it may do. No row: that changed nothing.
update cortex.user_account
set disabled_at = null
where id = :id
  and disabled_at is not null
returning id;

-- name: end_session
-- Ends a conversation. No row: it had ended, or there is none.
update cortex.session
set ended_at = :now
where id = :id
  and ended_at is null
returning id;

-- name: end_sessions
-- Ends the conversations of a person.
update cortex.session
set ended_at = :now
where user_account_id = :id
  and ended_at is null
returning id;

-- name: end_sign_ins
-- Signs a person out everywhere.
delete from cortex.login_session
where user_account_id = :id
returning token_hash;

-- name: find_by_channel
-- Whose address this is.
select u.id, u.name, u.display_name, u.email, u.created_at, u.disabled_at, u.owner_id
from cortex.channel_mapping c
join cortex.user_account u on u.id = c.user_account_id
where c.channel_type = :channel_type
  and c.channel_user_id = :channel_user_id;

-- name: find_group
-- The group of this name in a tenant.
select id, tenant_id, name, created_at
from cortex.user_group
where tenant_id = :tenant_id
  and name = :name;

-- name: find_user
-- The person of this name.
select id, name, display_name, email, created_at, disabled_at, owner_id
from cortex.user_account
where name = :name;

-- name: get_session
-- One conversation.
select id, tenant_id, user_account_id, agent_id, channel, created_at, ended_at
from cortex.session
where id = :id;

-- name: get_user
-- One person.
select id, name, display_name, email, created_at, disabled_at, owner_id
from cortex.user_account
where id = :id;

-- name: groups_of
-- The groups that somebody is in.
select group_id
from cortex.group_member
where user_account_id = :user_id;

-- name: link_channel
-- Links an address to a person. No row: somebody has it.
insert into cortex.channel_mapping (id, user_account_id, channel_type, channel_user_id, created_at)
values (:id, :user_id, :channel_type, :channel_user_id, :now)
on conflict (channel_type, channel_user_id) do nothing
returning id;

-- name: list_groups
-- The groups of a tenant, by name.
select id, tenant_id, name, created_at
from cortex.user_group
where tenant_id = :tenant_id
order by name;

-- name: list_sessions
-- The newest conversations of a tenant before :before, of one person or of all.
select id, tenant_id, user_account_id, agent_id, channel, created_at, ended_at
from cortex.session
where tenant_id = :tenant_id
  and id < :before
  and (cast(:user_id as text) is null or cast(user_account_id as text) = cast(:user_id as text))
order by id desc
limit :limit;

-- name: list_users
-- People by name, those after :after.
select id, name, display_name, email, created_at, disabled_at, owner_id
from cortex.user_account
where name > :after
order by name
limit :limit;

-- name: members
-- Who is in a group, by name.
select u.id, u.name, u.display_name, u.email, u.created_at, u.disabled_at, u.owner_id
from cortex.group_member m
join cortex.user_account u on u.id = m.user_account_id
where m.group_id = :group_id
order by u.name;

-- name: remove_group
-- Removes a group. No row: there is none.
delete from cortex.user_group
where id = :id
returning id;

-- name: remove_member
-- Takes somebody out of a group. No row: they are not in it.
delete from cortex.group_member
where group_id = :group_id
  and user_account_id = :user_id
returning group_id;

-- name: revoke_keys
-- Takes all keys of a person back.
update cortex.api_key
set revoked_at = :now
where user_account_id = :id
  and revoked_at is null
returning id;

-- name: unlink_channel
-- Removes an address. No row: there is none.
delete from cortex.channel_mapping
where id = :id
returning id, user_account_id, channel_type, channel_user_id, created_at;

-- name: void_tokens
-- The tokens that were sent to a person, or to one address of theirs, open nothing any more.
delete from cortex.approval_token
where user_account_id = :id
  and (cast(:channel_type as text) is null or (channel_type = :channel_type and channel_user_id = :channel_user_id))
returning replaced_at;
