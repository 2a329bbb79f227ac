-- Templates and groups: stored job definitions, and jobs that belong together.
--
--   a member ends ──▶ a job for the agent `cortex.group` ──▶ advance: look at all members, do what is due
--
-- In a sequential group one member is let go at a time; the others wait with an entry that is `held`, which no claim sees.
-- Lock order: the group, then as everywhere (worker, queue entry, job, run). Ending a member never waits for its group.

create table cortex.job_template (
  id uuid primary key,
  tenant_id uuid not null,
  name text not null check (name <> ''),
  job_type text not null,
  params jsonb not null default '{}' check (jsonb_typeof(params) = 'object'),
  options jsonb not null default '{}' check (jsonb_typeof(options) = 'object'),
  version int not null default 1 check (version > 0),
  created_by text,
  changed_by text,
  created_at timestamptz not null default cortex.now(),
  updated_at timestamptz not null default cortex.now(),
  unique (tenant_id, name)
);

create table cortex.job_group (
  id uuid primary key,
  tenant_id uuid not null,
  name text check (name <> ''),
  group_key text check (group_key <> ''),
  request_hash text,
  mode text not null check (mode in ('parallel', 'sequential')),
  on_failure text not null check (on_failure in ('stop', 'continue', 'skip')),
  callback jsonb check (jsonb_typeof(callback) = 'object'),
  callback_job_id uuid,
  created_by text,
  created_at timestamptz not null default cortex.now(),
  finished_at timestamptz,
  stopping boolean not null default false,
  constraint called_back_only_when_finished check (callback_job_id is null or (callback is not null and finished_at is not null))
);

-- Members that failed for good, until their group was looked at: meanwhile no claim begins another member of it.
-- One row for each, so that whoever ends a member waits for nobody.
create table cortex.group_failure (
  job_id uuid primary key,
  group_id uuid not null
);
create index group_failure_of_group on cortex.group_failure (group_id);

create unique index job_group_of_key on cortex.job_group (tenant_id, group_key) where group_key is not null;

-- Neither column ever changes, so a transition still rewrites its row in place.
create index job_of_group on cortex.job (group_id, id) where group_id is not null;

-- ---------------------------------------------------------------------------
-- One after the other
-- ---------------------------------------------------------------------------

-- A sequential group lets no member begin while another is under way. A chained retry takes the place of its predecessor.
-- Named so that it runs after the trigger that makes the entries.
create function cortex.job_joined_group() returns trigger language plpgsql as $$
declare
  _groups uuid[] := array(select distinct group_id from new_job where group_id is not null and retry_count = 0);
  _held uuid[];
begin
  if cardinality(_groups) = 0 then
    return null;
  end if;
  perform 1 from cortex.job_group where id = any (_groups) and mode = 'sequential' order by id for update;
  if not found then
    return null;
  end if;
  _held := array(
    select m.id
    from (
      select n.id, n.group_id, row_number() over (partition by n.group_id order by n.id) as place
      from new_job n
      join cortex.job_group g on g.id = n.group_id
      where g.mode = 'sequential' and n.retry_count = 0
    ) m
    where m.place > 1 or exists (
      select 1 from cortex.job j
      where j.group_id = m.group_id
        and j.status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
        and j.id not in (select id from new_job)
        and not exists (select 1 from cortex.queue_entry e where e.job_id = j.id and e.state = 'held')));
  update cortex.queue_entry set state = 'held' where job_id = any (_held);
  return null;
end $$;
create trigger job_joined_group after insert on cortex.job
  referencing new table as new_job
  for each statement execute function cortex.job_joined_group();

-- Lets a held member wait as any other job does. False when it was not held.
create function cortex.let_go(_job uuid) returns boolean language plpgsql as $$
declare
  _entry cortex.queue_entry;
begin
  update cortex.queue_entry
  set state = case
      when due_at > cortex.now() then 'later'::cortex.entry_state
      when serial_key is not null then 'blocked'
      else 'ready'
    end
  where job_id = _job and state = 'held'
  returning * into _entry;
  if _entry.state = 'ready' then
    perform pg_notify('cortex', 'ready:' || _entry.queue);
  elsif _entry.state = 'blocked' then
    perform cortex.settle_serial_keys(array[_entry.tenant_id], array[_entry.serial_key]);
  end if;
  return _entry.job_id is not null;
end $$;

-- ---------------------------------------------------------------------------
-- When a member ends
-- ---------------------------------------------------------------------------

-- Whoever ends a member asks for a look at its group, unless somebody has asked already. What the group itself ends, it has seen.
create function cortex.members_ended(_ended uuid[]) returns void language plpgsql as $$
declare
  _groups uuid[] := cortex.not_yet_asked(array(
    select distinct group_id from cortex.job where id = any (_ended) and group_id is not null and cause <> 'group'));
begin
  insert into cortex.group_failure (job_id, group_id)
  select j.id, g.id
  from cortex.job j
  join cortex.job_group g on g.id = j.group_id
  where j.id = any (_ended) and j.status = 'FAILED' and not coalesce(j.note ? 'retry_as', false)
    and g.on_failure <> 'continue' and not g.stopping
  on conflict do nothing;
  if cardinality(_groups) > 0 then
    perform cortex.ask_to_advance(_groups);
  end if;
  insert into cortex.job_run
    (id, job_id, attempt, tenant_id, queue, job_type, serial_key, template_id, params_snapshot, status, started_at, finished_at,
     closed_by)
  select (note ->> 'skipped_as')::uuid, id, 0, tenant_id, queue, job_type, serial_key, template_id, payload, 'SKIPPED',
    updated_at, updated_at, coalesce(actor, cause)
  from cortex.job
  where id = any (_ended) and group_id is not null and cause = 'group' and status = 'CANCELLED' and attempt = 0
    and note ? 'skipped_as';
end $$;

-- Those of the groups for which no job is ready that will look at them after this transaction.
-- Such a job is locked, so that it cannot be claimed before; one that cannot be locked is being claimed, and may look too early.
create function cortex.not_yet_asked(_groups uuid[]) returns uuid[] language plpgsql as $$
declare
  _asked uuid[];
begin
  if cardinality(_groups) = 0 then
    return _groups;
  end if;
  _asked := array(
    select g.id from cortex.job_group g
    join cortex.queue_entry e on e.tenant_id = g.tenant_id and e.serial_key = g.id::text
    where g.id = any (_groups) and e.serial_key is not null and e.state = 'ready'
      and e.job_type = 'cortex.group'
    for share of e skip locked);
  if cardinality(_asked) > 0 then
    perform pg_notify('cortex', 'ready:cortex');  -- A claim that met the lock has passed it over.
  end if;
  return array(select g from unnest(_groups) as g where g <> all (_asked));
end $$;

-- Under the lock of a group's key, a job that is blocked stays so until this transaction has ended, and will look then. Where another
-- transaction has the lock, which may last, one more job is asked for.
create function cortex.ask_to_advance(_groups uuid[]) returns void language plpgsql as $$
declare
  _locked uuid[] := array(
    select g.id from cortex.job_group g where g.id = any (_groups) and cortex.try_serial_key(g.tenant_id, g.id::text));
  _missing uuid[] := cortex.not_yet_asked(_groups);
begin
  insert into cortex.job (tenant_id, agent_id, job_type, queue, payload, max_retries, serial_key, cause, actor)
  select g.tenant_id, a.id, a.job_type, 'cortex', jsonb_build_object('group_id', g.id),
    coalesce((a.skill_config -> 'retry' ->> 'max_retries')::int, 3), g.id::text, 'group', 'group'
  from cortex.job_group g
  join cortex.agent a on a.job_type = 'cortex.group'
  where g.id = any (_missing)
    and not (g.id = any (_locked) and exists (
      select 1 from cortex.queue_entry e
      where e.tenant_id = g.tenant_id and e.serial_key = g.id::text and e.serial_key is not null
        and e.state = 'blocked' and e.job_type = 'cortex.group'))
  order by g.id;
end $$;

comment on table cortex.job_template is 'Stored job definitions. Jobs that were made from one keep what it said then.';
comment on column cortex.job_template.id is 'UUIDv7; what job.template_id refers to.';
comment on column cortex.job_template.tenant_id is 'Who owns it.';
comment on column cortex.job_template.name is 'Unique within the tenant.';
comment on column cortex.job_template.job_type is 'The agent of its jobs.';
comment on column cortex.job_template.params is 'Their payload; a caller may replace single keys.';
comment on column cortex.job_template.options is 'What their submission asks for besides: queue, priority, tags and so on, by their names over HTTP.';
comment on column cortex.job_template.version is 'Counted up by every change.';
comment on column cortex.job_template.created_by is 'Who saved it first.';
comment on column cortex.job_template.changed_by is 'Who last changed what its jobs are. They stand behind those jobs.';
comment on column cortex.job_template.created_at is 'When it was first saved.';
comment on column cortex.job_template.updated_at is 'When it last changed.';

comment on table cortex.group_failure is 'Members that failed for good, until their group was looked at: meanwhile no claim begins another member.';
comment on column cortex.group_failure.job_id is 'The member.';
comment on column cortex.group_failure.group_id is 'Its group.';

comment on table cortex.job_group is 'Jobs that belong together. Where a group stands follows from its members, the jobs with its group_id.';
comment on column cortex.job_group.id is 'UUIDv7; what job.group_id refers to.';
comment on column cortex.job_group.tenant_id is 'Who owns it, and all its members.';
comment on column cortex.job_group.name is 'For people.';
comment on column cortex.job_group.group_key is 'Submitted again under the same key, it is this group; unique for the tenant.';
comment on column cortex.job_group.request_hash is 'SHA-256 of what was asked for under that key.';
comment on column cortex.job_group.mode is 'parallel, or sequential: one member after the other, in the order of their ids.';
comment on column cortex.job_group.on_failure is 'When a member fails for good: stop all others, continue, or skip those that have not begun.';
comment on column cortex.job_group.callback is 'The job to submit when no member is open any more.';
comment on column cortex.job_group.callback_job_id is 'That job, once it was submitted.';
comment on column cortex.job_group.created_by is 'Who submitted it.';
comment on column cortex.job_group.created_at is 'When.';
comment on column cortex.job_group.finished_at is 'When no member was open any more, for the first time.';
comment on column cortex.job_group.stopping is 'What a failure or an operator asked for has been done to the members.';
