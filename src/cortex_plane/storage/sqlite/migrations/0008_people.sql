-- People: who decides, how they are reached, and what they may do.
--
-- An account with an owner is a service account: programs act as it by its keys. It has no password, and decides nothing.

create table user_account (
  id text primary key,
  name text not null unique check (name <> ''),
  display_name text check (display_name <> ''),
  email text check (email like '%_@_%'),
  owner_id text references user_account (id),
  created_at integer not null,
  disabled_at integer,
  constraint nobody_owns_themselves check (owner_id <> id)
) strict;

create table user_group (
  id text primary key,
  tenant_id text not null references tenant (id),
  name text not null check (name <> ''),
  created_at integer not null,
  unique (tenant_id, name)
) strict;

create table group_member (
  group_id text not null references user_group (id) on delete cascade,
  user_account_id text not null references user_account (id) on delete cascade,
  primary key (group_id, user_account_id)
) strict, without rowid;
create index group_member_of_user on group_member (user_account_id);

create table channel_mapping (
  id text primary key,
  user_account_id text not null references user_account (id) on delete cascade,
  channel_type text not null check (channel_type <> ''),
  channel_user_id text not null check (channel_user_id <> ''),
  created_at integer not null,
  unique (channel_type, channel_user_id)
) strict;
create index channel_mapping_of_user on channel_mapping (user_account_id);

create table session (
  id text primary key,
  tenant_id text not null default '00000000-0000-7000-8000-000000000000' references tenant (id),
  user_account_id text not null references user_account (id),
  agent_id text references agent (id),
  channel text,
  created_at integer not null,
  ended_at integer
) strict;
create index session_of_user on session (user_account_id, id);
create index session_of_tenant on session (tenant_id, id);

-- A role without a tenant holds in all of them.
create table user_role (
  user_account_id text not null references user_account (id) on delete cascade,
  tenant_id text references tenant (id),
  role text not null check (role in ('viewer', 'submitter', 'operator', 'approver', 'admin'))
) strict;
create unique index user_role_once on user_role (user_account_id, coalesce(tenant_id, ''), role);

create table user_password (
  user_account_id text primary key references user_account (id) on delete cascade,
  hash text not null check (hash like '$argon2id$%'),
  changed_at integer not null
) strict;

create table login_session (
  token_hash text primary key check (length(token_hash) = 64),
  user_account_id text not null references user_account (id) on delete cascade,
  created_at integer not null,
  last_used_at integer not null,
  expires_at integer not null
) strict;
create index login_session_of_user on login_session (user_account_id);
create index login_session_expiry on login_session (expires_at);

create table api_key (
  id text primary key,
  tenant_id text references tenant (id),
  name text not null check (name <> ''),
  prefix text not null check (length(prefix) between 8 and 24),
  hash text not null unique check (length(hash) = 64),
  roles text not null check (json_valid(roles) and json_type(roles) = 'array' and json_array_length(roles) > 0),
  user_account_id text references user_account (id) on delete cascade,
  created_by text,
  created_at integer not null,
  last_used_at integer,
  expires_at integer,
  revoked_at integer
) strict;
create index api_key_of_tenant on api_key (tenant_id);
create index api_key_of_user on api_key (user_account_id);
create index api_key_by_prefix on api_key (prefix);
