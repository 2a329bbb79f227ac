-- Templates and groups: stored job definitions, and jobs that belong together.
--
--   a member ends ──▶ a job for the agent `cortex.group` ──▶ advance: look at all members, do what is due
--
-- In a sequential group one member is let go at a time; the others wait with an entry that is `held`, which no claim sees.

create table job_template (
  id text primary key,
  tenant_id text not null references tenant (id),
  name text not null check (name <> ''),
  job_type text not null,
  params text not null default '{}' check (json_type(params) = 'object'),
  options text not null default '{}' check (json_type(options) = 'object'),
  version integer not null default 1 check (version > 0),
  created_by text,
  changed_by text,
  created_at integer not null,
  updated_at integer not null,
  unique (tenant_id, name)
) strict;

create table job_group (
  id text primary key,
  tenant_id text not null references tenant (id),
  name text check (name <> ''),
  group_key text check (group_key <> ''),
  request_hash text,
  mode text not null check (mode in ('parallel', 'sequential')),
  on_failure text not null check (on_failure in ('stop', 'continue', 'skip')),
  callback text check (callback is null or json_type(callback) = 'object'),
  callback_job_id text,
  created_by text,
  created_at integer not null,
  finished_at integer,
  stopping integer not null default 0 check (stopping in (0, 1)),
  constraint called_back_only_when_finished check (callback_job_id is null or (callback is not null and finished_at is not null))
) strict;

-- Members that failed for good, until their group was looked at: meanwhile no claim begins another member of it.
create table group_failure (
  job_id text primary key,
  group_id text not null
) strict, without rowid;
create index group_failure_of_group on group_failure (group_id);

create unique index job_group_of_key on job_group (tenant_id, group_key) where group_key is not null;
create index job_of_group on job (group_id, id) where group_id is not null;

-- A sequential group lets no member begin while another is under way. A chained retry takes the place of its predecessor.
-- Whether the key is settled before or after this trigger makes no difference: it is settled again.
create trigger member_came after insert on queue_entry
when exists (select 1 from job_group) and exists (
  select 1 from job j join job_group g on g.id = j.group_id
  where j.id = new.job_id and j.status = 'PENDING' and j.retry_count = 0 and g.mode = 'sequential'
    and exists (
      select 1 from job other
      where other.group_id = j.group_id and other.id <> j.id
        and other.status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
        and not exists (select 1 from queue_entry where job_id = other.id and state = 'held')))
begin
  update queue_entry set state = 'held' where job_id = new.job_id;
  insert into key_to_settle select new.tenant_id, new.serial_key where new.serial_key is not null;
end;

create trigger keyed_entry_let_go after update of state on queue_entry when old.state = 'held' and new.state = 'blocked'
begin
  insert into key_to_settle values (new.tenant_id, new.serial_key);
end;

-- Whoever ends a member asks for a look at its group, unless somebody has asked already. What the group itself ends, it has seen.
create trigger member_ended after update of status on job
when new.group_id is not null and (new.status = 'COMPLETED' or new.status = 'FAILED' or new.status = 'CANCELLED')
  and new.status <> old.status and (new.revision = old.revision or new.cause <> 'group')
  and not exists (
    select 1 from queue_entry
    where tenant_id = new.tenant_id and serial_key = new.group_id and job_type = 'cortex.group' and state in ('ready', 'blocked'))
begin
  insert into job
    (id, tenant_id, agent_id, job_type, queue, payload, position, max_retries, serial_key, worker_job_id, cause, actor,
     created_at, queued_at, updated_at)
  select
    substr(printf('%012x', new.updated_at / 1000), 1, 8) || '-' || substr(printf('%012x', new.updated_at / 1000), 9)
      || '-7' || substr(lower(hex(randomblob(2))), 2) || '-' || substr('89ab', 1 + abs(random() % 4), 1)
      || substr(lower(hex(randomblob(2))), 2) || '-' || lower(hex(randomblob(6))),
    g.tenant_id, a.id, a.job_type, 'cortex', json_object('group_id', g.id),
    (select value + 100 from counter where name = 'position'),
    coalesce(json_extract(a.skill_config, '$.retry.max_retries'), 3), g.id,
    (select value + 1 from counter where name = 'queue_entry'), 'group', 'group', new.updated_at, new.updated_at, new.updated_at
  from job_group g, agent a
  where g.id = new.group_id and a.job_type = 'cortex.group';
end;

create trigger member_failed after update of status on job
when new.group_id is not null and new.status = 'FAILED' and old.status <> 'FAILED'
  and json_extract(new.note, '$.retry_as') is null
begin
  insert or ignore into group_failure (job_id, group_id)
  select new.id, id from job_group where id = new.group_id and on_failure <> 'continue' and stopping = 0;
end;

-- A skipped job has a run too, which never began.
drop trigger run_no_insert;
create trigger run_no_insert before insert on job_run
when not exists (
  select 1 from job
  where id = new.job_id
    and (run_id = new.id
      or (new.status = 'SKIPPED' and status = 'CANCELLED' and attempt = 0 and json_extract(note, '$.skipped_as') = new.id)))
begin
  select raise(abort, 'A run opens only with its job: set job.status to RUNNING and job.run_id to its id.');
end;

create trigger job_skipped after update of status on job
when new.status = 'CANCELLED' and old.status = 'PENDING' and new.revision <> old.revision
  and json_extract(new.note, '$.skipped_as') is not null
begin
  insert into job_run
    (id, job_id, attempt, tenant_id, queue, job_type, serial_key, template_id, params_snapshot, status, started_at, finished_at,
     closed_by)
  values (json_extract(new.note, '$.skipped_as'), new.id, 0, new.tenant_id, new.queue, new.job_type, new.serial_key,
    new.template_id, new.payload, 'SKIPPED', new.updated_at, new.updated_at, coalesce(new.actor, new.cause));
end;
