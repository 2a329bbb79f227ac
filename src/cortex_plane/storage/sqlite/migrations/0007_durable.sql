-- Durable agents: checkpoints and the large results that they refer to, events, and jobs that other jobs have called.
--
--   a child ends ──▶ its parent, if it waits for a child, is due at once
--   a parent ends undone ──▶ a job for the agent `cortex.children` ──▶ the children that end with it are cancelled

alter table job add column checkpoint_id text;
alter table job add column cleanup_seconds real check (cleanup_seconds > 0);
alter table job add column cancel_requested_at integer;
alter table job add column cancel_request text check (cancel_request is null or json_valid(cancel_request));
alter table job add column cancel_with_parent integer not null default 0 check (cancel_with_parent in (0, 1));

-- Large results, and the sealed segments of long checkpoints, which have a number.
create table job_blob (
  job_id text not null references job (id) on delete cascade,
  sha256 text not null check (length(sha256) = 64),
  content text not null,
  seq integer check (seq > 0),
  created_at integer not null,
  primary key (job_id, sha256)
) strict;
create unique index job_blob_segment on job_blob (job_id, seq) where seq is not null;

create table job_event (
  seq integer primary key,
  job_id text not null references job (id) on delete cascade,
  run_id text not null,
  at integer not null,
  kind text not null check (kind <> ''),
  data text not null check (json_valid(data))
) strict;
create index job_event_of_job on job_event (job_id);

create trigger blob_no_update before update on job_blob
begin
  select raise(abort, 'Rows of job_blob are never changed or deleted.');
end;
create trigger blob_no_delete before delete on job_blob
when exists (select 1 from job where id = old.job_id)
begin
  select raise(abort, 'Rows of job_blob go only with their whole job.');
end;
create trigger blob_no_replace before insert on job_blob
when exists (select 1 from job_blob where job_id = new.job_id and sha256 = new.sha256)
  or (new.seq is not null and exists (select 1 from job_blob where job_id = new.job_id and seq = new.seq))
begin
  select raise(abort, 'Rows of job_blob are never changed or deleted.');
end;

-- Also for clients that do not switch foreign keys on.
create trigger job_left_nothing after delete on job
begin
  delete from job_blob where job_id = old.id;
  delete from job_event where job_id = old.id;
end;

-- A job that was asked to end while it has an open cleanup scope is called once more: if it waits, at once. It is ended when
-- the time for that is over.
create trigger job_asked_to_end after update of cancel_requested_at on job
when new.cancel_requested_at is not null and old.cancel_requested_at is null
begin
  insert into job_deadline (job_id, at)
  values (new.id, new.cancel_requested_at + cast(round(1000000 * new.cleanup_seconds) as integer))
  on conflict (job_id) do update
  set at = iif(at <= new.cancel_requested_at, excluded.at, min(at, excluded.at));
  update queue_entry
  set due_at = new.cancel_requested_at, state = iif(serial_key is null, 'ready', 'blocked')
  where job_id = new.id and state = 'later';
  insert into audit_log (at, tenant_id, actor, action, object_type, object_id, reason)
  values (new.cancel_requested_at, new.tenant_id, new.cancel_request ->> 'actor', 'JOB_CANCEL_REQUESTED', 'job', new.id,
    new.cancel_request ->> 'reason');
end;
drop trigger job_deadline_over;
create trigger job_deadline_over after update of status on job
when (new.deadline_at is not null or new.cancel_requested_at is not null)
  and new.finished_at is not null and old.finished_at is null
begin
  delete from job_deadline where job_id = new.id;
end;

-- ---------------------------------------------------------------------------
-- Parents and children
-- ---------------------------------------------------------------------------

-- A job that goes to wait for a child which has ended, or which is not there, is due at once.
create trigger child_had_ended after insert on queue_entry
when new.state = 'later' and exists (
  select 1 from job p
  where p.id = new.job_id and p.status = 'RETRY' and p.wait_reason = 'child' and p.note ->> 'child' is not null
    and not exists (select 1 from job c where c.id = p.note ->> 'child' and c.finished_at is null))
begin
  update job set next_retry_at = updated_at where id = new.job_id;
  update queue_entry
  set due_at = (select updated_at from job where id = new.job_id), state = iif(serial_key is null, 'ready', 'blocked')
  where job_id = new.job_id;
end;

create trigger child_ended after update of status on job
when new.parent_id is not null and new.finished_at is not null and old.finished_at is null
  and exists (select 1 from job where id = new.parent_id and status = 'RETRY' and wait_reason = 'child')
begin
  update queue_entry
  set due_at = new.updated_at, state = iif(serial_key is null, 'ready', 'blocked')
  where job_id = new.parent_id and state = 'later';
  update job
  set next_retry_at = max(new.updated_at, updated_at), updated_at = max(new.updated_at, updated_at)
  where id = new.parent_id and next_retry_at > new.updated_at;
end;

create trigger parent_ended_undone after update of status on job
when (new.status = 'FAILED' or new.status = 'CANCELLED') and old.finished_at is null
  and exists (select 1 from job where parent_id = new.id and cancel_with_parent and finished_at is null)
begin
  insert into job
    (id, tenant_id, agent_id, job_type, queue, position, payload, max_retries, worker_job_id, created_by, cause, actor,
     created_at, queued_at, updated_at)
  select
    printf('%08x-%04x-7%s-8%s-%s', (new.updated_at / 1000) >> 16, (new.updated_at / 1000) & 65535,
      substr(lower(hex(randomblob(2))), 2), substr(lower(hex(randomblob(2))), 2), lower(hex(randomblob(6)))),
    new.tenant_id, a.id, a.job_type, 'cortex', (select value + 100 from counter where name = 'position'),
    json_object('parent_id', new.id), coalesce(json_extract(a.skill_config, '$.retry.max_retries'), 3),
    (select value + 1 from counter where name = 'queue_entry'), a.job_type, 'submit', a.job_type,
    new.updated_at, new.updated_at, new.updated_at
  from agent a
  where a.job_type = 'cortex.children';
end;

-- A child that is born after its parent has ended would be seen by nobody else. A retry that an operator asked for is meant
-- to run.
create trigger job_born_late after insert on job
when new.cancel_with_parent and (new.retry_of is null or new.retry_count > 0)
  and exists (select 1 from job where id = new.parent_id and status in ('FAILED', 'CANCELLED'))
begin
  insert into job
    (id, tenant_id, agent_id, job_type, queue, position, payload, max_retries, worker_job_id, created_by, cause, actor,
     created_at, queued_at, updated_at)
  select
    printf('%08x-%04x-7%s-8%s-%s', (new.updated_at / 1000) >> 16, (new.updated_at / 1000) & 65535,
      substr(lower(hex(randomblob(2))), 2), substr(lower(hex(randomblob(2))), 2), lower(hex(randomblob(6)))),
    new.tenant_id, a.id, a.job_type, 'cortex', (select value + 100 from counter where name = 'position'),
    json_object('parent_id', new.parent_id), coalesce(json_extract(a.skill_config, '$.retry.max_retries'), 3),
    (select value + 1 from counter where name = 'queue_entry'), a.job_type, 'submit', a.job_type,
    new.updated_at, new.updated_at, new.updated_at
  from agent a
  where a.job_type = 'cortex.children';
end;

-- Where checkpoints are put to be saved. A repeated write finds its own id, and adds no cost again.
create view checkpoint_to_save (job_id, run_id, id, previous_id, cost_cents, document, at) as
select id, run_id, checkpoint_id, null, 0, checkpoint, updated_at from job;
create trigger save_checkpoint instead of insert on checkpoint_to_save
begin
  update job
  set checkpoint = new.document,
    checkpoint_id = new.id,
    cost_cents = cost_cents + iif(checkpoint_id is new.id, 0, new.cost_cents),
    updated_at = max(new.at, updated_at)
  where id = new.job_id
    and run_id = new.run_id
    and (checkpoint_id is new.previous_id or checkpoint_id = new.id);
end;

-- The record of a job as the specification has it: its checkpoint, with the log, the tool calls and the recorded steps of its
-- segments put back. Of a call that is in several, the newest counts. `crc32` stays that of job.checkpoint.
create view checkpoint_part (job_id, seq, content) as
select b.job_id, b.seq, b.content
from job j
join job_blob b on b.job_id = j.id
  and b.seq between j.checkpoint ->> '$.memory_context.working_data."$cortex".sealed.first'
    and j.checkpoint ->> '$.memory_context.working_data."$cortex".sealed.last'
union all
select id, 9223372036854775807, json_object(
  'execution_log', json(checkpoint -> '$.execution_log'), 'active_tools', json(checkpoint -> '$.active_tools'),
  'steps', json(coalesce(checkpoint -> '$.memory_context.working_data."$cortex".steps', '{}')))
from job
where checkpoint is not null;
create view job_checkpoint (job_id, checkpoint_id, checkpoint) as
select j.id, j.checkpoint_id, iif(
  j.checkpoint -> '$.memory_context.working_data."$cortex".sealed' is null,
  j.checkpoint,
  json_set(
    json_remove(j.checkpoint, '$.memory_context.working_data."$cortex".sealed'),
    '$.execution_log', json((
      select json_group_array(json(value))
      from (select l.value from checkpoint_part p, json_each(p.content, '$.execution_log') l where p.job_id = j.id order by p.seq, l.id))),
    '$.active_tools', json((
      select json_group_array(json(value))
      from (
        select t.value, max(p.seq) as newest, t.id as place
        from checkpoint_part p, json_each(p.content, '$.active_tools') t
        where p.job_id = j.id
        group by t.value ->> 'invocation_id'
        order by newest, place))),
    '$.memory_context.working_data."$cortex".steps', json((
      select json_group_object(key, json(value))
      from (
        select s.key, s.value, max(p.seq) as newest
        from checkpoint_part p, json_each(p.content, '$.steps') s
        where p.job_id = j.id
        group by s.key)
      where value ->> 'again' is null))))
from job j
where j.checkpoint is not null;

-- ---------------------------------------------------------------------------
-- Jobs whose record does not fit the code
-- ---------------------------------------------------------------------------

-- Which code did not fit the record of a job: a worker that has this code hands the job back while others may have code that fits.
create table job_hold (
  job_id text primary key references job (id) on delete cascade,
  job_type text not null,
  codes text not null check (json_type(codes) = 'array'),
  offered text not null default '[]' check (json_type(offered) = 'array'),
  handed_back integer not null default 0 check (handed_back >= 0),
  error text check (error is null or json_valid(error)),
  held_at integer not null
) strict;
create index job_hold_of_agent on job_hold (job_type);

create trigger job_held after update of status on job
when new.status = 'RETRY' and old.status = 'RUNNING' and new.wait_reason = 'code_changed' and new.note ->> 'code' is not null
begin
  insert into job_hold (job_id, job_type, codes, error, held_at)
  values (new.id, new.job_type, json_array(new.note ->> 'code'), new.error, new.updated_at)
  on conflict (job_id) do update
  set codes = iif(
      exists (select 1 from json_each(codes) c where c.value = new.note ->> 'code'),
      codes, json_insert(codes, '$[#]', new.note ->> 'code')),
    offered = iif(new.note ->> 'handed_back' is null, '[]', offered),
    handed_back = iif(new.note ->> 'handed_back' is null, 0, handed_back + 1),
    error = excluded.error,
    held_at = iif(new.note ->> 'handed_back' is null, excluded.held_at, held_at);
end;

create trigger job_left_no_hold after delete on job
begin
  delete from job_hold where job_id = old.id;
end;
