-- Durable agents: checkpoints and the large results that they refer to, events, and jobs that other jobs have called.
--
--   a child ends ──▶ its parent, if it waits for a child, is due at once
--   a parent ends undone ──▶ a job for the agent `cortex.children` ──▶ the children that end with it are cancelled

alter table job add column checkpoint_id text;
alter table job add column checkpoint_added text check (checkpoint_added is null or json_valid(checkpoint_added));
alter table job add column cancel_with_parent integer not null default 0 check (cancel_with_parent in (0, 1));

create table job_blob (
  job_id text not null references job (id) on delete cascade,
  sha256 text not null check (length(sha256) = 64),
  content text not null,
  created_at integer not null,
  primary key (job_id, sha256)
) strict;

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
begin
  select raise(abort, 'Rows of job_blob are never changed or deleted.');
end;

-- Also for clients that do not switch foreign keys on.
create trigger job_left_nothing after delete on job
begin
  delete from job_blob where job_id = old.id;
  delete from job_event where job_id = old.id;
end;

-- The retry of a job that ended: a new job with the same work, linked by retry_of, at most one for each. It starts anew, so
-- without a checkpoint, in the same place of its family.
drop trigger job_chained;
create trigger job_chained after update of status on job
when new.status = 'FAILED' and old.status <> 'FAILED' and new.revision <> old.revision
  and json_extract(new.note, '$.retry_as') is not null
begin
  insert into job
    (id, tenant_id, agent_id, job_type, queue, priority, position, payload, retry_count, max_retries, retry_policy, run_at,
     timeout_seconds, serial_key, group_id, template_id, schedule_id, parent_id, cancel_with_parent, session_id, created_by,
     retry_of, tags, worker_job_id, cause, actor, created_at, queued_at, updated_at)
  select json_extract(new.note, '$.retry_as'), new.tenant_id, new.agent_id, new.job_type, new.queue, new.priority,
    (select value + 100 from counter where name = 'position'), new.payload, new.retry_count + 1, new.max_retries,
    new.retry_policy,
    new.updated_at + cast(round(1000000 * json_extract(new.note, '$.retry_delay_seconds')) as integer),
    new.timeout_seconds, new.serial_key, new.group_id, new.template_id, new.schedule_id, new.parent_id,
    new.cancel_with_parent, new.session_id, new.created_by, new.id, new.tags,
    (select value + 1 from counter where name = 'queue_entry'), 'retry', new.actor, new.updated_at, new.updated_at,
    new.updated_at
  where not exists (select 1 from job where retry_of = new.id);
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
-- A document replaces the one before, with what was added to that; an addition comes without a document, and leaves it.
create view checkpoint_to_save (job_id, run_id, id, previous_id, cost_cents, document, added, at) as
select id, run_id, checkpoint_id, null, 0, checkpoint, checkpoint_added, updated_at from job;
create trigger save_checkpoint instead of insert on checkpoint_to_save
begin
  update job
  set checkpoint = new.document,
    checkpoint_added = null,
    checkpoint_id = new.id,
    cost_cents = cost_cents + iif(checkpoint_id is new.id, 0, new.cost_cents),
    updated_at = max(new.at, updated_at)
  where new.document is not null
    and id = new.job_id
    and run_id = new.run_id
    and (checkpoint_id is new.previous_id or checkpoint_id = new.id);
  update job
  set checkpoint_added = new.added,
    checkpoint_id = new.id,
    cost_cents = cost_cents + iif(checkpoint_id is new.id, 0, new.cost_cents),
    updated_at = max(new.at, updated_at)
  where new.document is null
    and id = new.job_id
    and run_id = new.run_id
    and (checkpoint_id is new.previous_id or checkpoint_id = new.id);
end;
