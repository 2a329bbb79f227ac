-- People: who decides, how they are reached, and what they may do.
--
-- An account with an owner is a service account: programs act as it by its keys. It has no password, and decides nothing.

create table cortex.user_account (
  id uuid primary key default cortex.uuid7(),
  name text not null unique check (name <> ''),
  display_name text check (display_name <> ''),
  email text check (email like '%_@_%'),
  owner_id uuid references cortex.user_account (id),
  created_at timestamptz not null default cortex.now(),
  disabled_at timestamptz,
  constraint nobody_owns_themselves check (owner_id <> id)
);

create table cortex.user_group (
  id uuid primary key default cortex.uuid7(),
  tenant_id uuid not null references cortex.tenant (id),
  name text not null check (name <> ''),
  created_at timestamptz not null default cortex.now(),
  unique (tenant_id, name)
);

create table cortex.group_member (
  group_id uuid not null references cortex.user_group (id) on delete cascade,
  user_account_id uuid not null references cortex.user_account (id) on delete cascade,
  primary key (group_id, user_account_id)
);
create index group_member_of_user on cortex.group_member (user_account_id);

create table cortex.channel_mapping (
  id uuid primary key default cortex.uuid7(),
  user_account_id uuid not null references cortex.user_account (id) on delete cascade,
  channel_type text not null check (channel_type <> ''),
  channel_user_id text not null check (channel_user_id <> ''),
  created_at timestamptz not null default cortex.now(),
  unique (channel_type, channel_user_id)
);
create index channel_mapping_of_user on cortex.channel_mapping (user_account_id);

create table cortex.session (
  id uuid primary key default cortex.uuid7(),
  tenant_id uuid not null default '00000000-0000-7000-8000-000000000000' references cortex.tenant (id),
  user_account_id uuid not null references cortex.user_account (id),
  agent_id uuid references cortex.agent (id),
  channel text,
  created_at timestamptz not null default cortex.now(),
  ended_at timestamptz
);
create index session_of_user on cortex.session (user_account_id, id);
create index session_of_tenant on cortex.session (tenant_id, id);

-- A role without a tenant holds in all of them.
create table cortex.user_role (
  user_account_id uuid not null references cortex.user_account (id) on delete cascade,
  tenant_id uuid references cortex.tenant (id),
  role text not null check (role in ('viewer', 'submitter', 'operator', 'approver', 'admin'))
);
create unique index user_role_once
  on cortex.user_role (user_account_id, coalesce(tenant_id, '00000000-0000-0000-0000-000000000000'), role);

create table cortex.user_password (
  user_account_id uuid primary key references cortex.user_account (id) on delete cascade,
  hash text not null check (hash like '$argon2id$%'),
  changed_at timestamptz not null default cortex.now()
);

create table cortex.login_session (
  token_hash text primary key check (length(token_hash) = 64),
  user_account_id uuid not null references cortex.user_account (id) on delete cascade,
  created_at timestamptz not null default cortex.now(),
  last_used_at timestamptz not null default cortex.now(),
  expires_at timestamptz not null
);
create index login_session_of_user on cortex.login_session (user_account_id);
create index login_session_expiry on cortex.login_session (expires_at);

create table cortex.api_key (
  id uuid primary key default cortex.uuid7(),
  tenant_id uuid references cortex.tenant (id),
  name text not null check (name <> ''),
  prefix text not null check (length(prefix) between 8 and 24),
  hash text not null unique check (length(hash) = 64),
  roles jsonb not null check (jsonb_typeof(roles) = 'array' and jsonb_array_length(roles) > 0),
  user_account_id uuid references cortex.user_account (id) on delete cascade,
  created_by text,
  created_at timestamptz not null default cortex.now(),
  last_used_at timestamptz,
  expires_at timestamptz,
  revoked_at timestamptz
);
create index api_key_of_tenant on cortex.api_key (tenant_id);
create index api_key_of_user on cortex.api_key (user_account_id);
create index api_key_by_prefix on cortex.api_key (prefix);

comment on table cortex.user_account is 'A person who submits, watches or decides.';
comment on column cortex.user_account.id is 'UUIDv7.';
comment on column cortex.user_account.name is 'What they sign in with, and what audit entries call them.';
comment on column cortex.user_account.display_name is 'What others are shown.';
comment on column cortex.user_account.email is 'Where mail reaches them.';
comment on column cortex.user_account.owner_id is 'The admin who owns this service account; null for a person.';
comment on column cortex.user_account.created_at is 'When the account was made.';
comment on column cortex.user_account.disabled_at is 'Since when it may do nothing.';

comment on table cortex.user_group is 'People who may be asked together.';
comment on column cortex.user_group.id is 'UUIDv7.';
comment on column cortex.user_group.tenant_id is 'Whose group it is.';
comment on column cortex.user_group.name is 'Unique in its tenant.';
comment on column cortex.user_group.created_at is 'When it was made.';

comment on table cortex.group_member is 'Who is in which group.';
comment on column cortex.group_member.group_id is 'The group.';
comment on column cortex.group_member.user_account_id is 'The member.';

comment on table cortex.channel_mapping is 'How a person is reached: one row for each address.';
comment on column cortex.channel_mapping.id is 'UUIDv7.';
comment on column cortex.channel_mapping.user_account_id is 'Who is reached.';
comment on column cortex.channel_mapping.channel_type is 'By which service.';
comment on column cortex.channel_mapping.channel_user_id is 'Their address or id there.';
comment on column cortex.channel_mapping.created_at is 'When it was linked.';

comment on table cortex.session is 'The conversation or request that started jobs.';
comment on column cortex.session.id is 'UUIDv7; job.session_id names it.';
comment on column cortex.session.tenant_id is 'Whose jobs may come out of it.';
comment on column cortex.session.user_account_id is 'Whose it is: the approver when a gate names nobody.';
comment on column cortex.session.agent_id is 'The agent that was spoken to.';
comment on column cortex.session.channel is 'Where it took place.';
comment on column cortex.session.created_at is 'When it began.';
comment on column cortex.session.ended_at is 'When it ended: from then on no job is submitted from it, and its user is not asked by default.';

comment on table cortex.user_role is 'What a person may do.';
comment on column cortex.user_role.user_account_id is 'Who.';
comment on column cortex.user_role.tenant_id is 'Where; null is everywhere.';
comment on column cortex.user_role.role is 'What.';

comment on table cortex.user_password is 'How a person signs in with a password.';
comment on column cortex.user_password.user_account_id is 'Whose password.';
comment on column cortex.user_password.hash is 'Its argon2id hash. Secret.';
comment on column cortex.user_password.changed_at is 'When it was last set.';

comment on table cortex.login_session is 'Browsers that are signed in.';
comment on column cortex.login_session.token_hash is 'SHA-256 of the cookie, in hexadecimal. Secret.';
comment on column cortex.login_session.user_account_id is 'Who is signed in.';
comment on column cortex.login_session.created_at is 'Since when.';
comment on column cortex.login_session.last_used_at is 'When it was last seen, roughly.';
comment on column cortex.login_session.expires_at is 'Until when.';

comment on table cortex.api_key is 'Keys of programs.';
comment on column cortex.api_key.id is 'UUIDv7.';
comment on column cortex.api_key.tenant_id is 'Where it works; null is everywhere.';
comment on column cortex.api_key.name is 'What it is for.';
comment on column cortex.api_key.prefix is 'The beginning of the key, to know it by.';
comment on column cortex.api_key.hash is 'SHA-256 of the whole key, in hexadecimal. Secret.';
comment on column cortex.api_key.roles is 'What it may do: a list of roles.';
comment on column cortex.api_key.user_account_id is 'Whose it is: it never may more than they may. Null: the installation''s own, made with the database.';
comment on column cortex.api_key.created_by is 'Who made it.';
comment on column cortex.api_key.created_at is 'When.';
comment on column cortex.api_key.last_used_at is 'When it was last used, roughly.';
comment on column cortex.api_key.expires_at is 'Until when it works; null is for ever.';
comment on column cortex.api_key.revoked_at is 'Since when it was taken back.';
