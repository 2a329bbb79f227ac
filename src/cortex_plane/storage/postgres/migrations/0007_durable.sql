-- Durable agents: checkpoints and the large results that they refer to, events, and jobs that other jobs have called.
--
--   a child ends ──▶ its parent, if it waits for a child, is due at once
--   a parent ends undone ──▶ a job for the agent `cortex.children` ──▶ the children that end with it are cancelled
--
-- Whoever ends or suspends a job never waits for its family: what somebody else holds is passed over, and looked at later.

alter table cortex.job
  add column checkpoint_id uuid,
  add column cancel_with_parent boolean not null default false,
  add column cleanup_seconds double precision,
  add column cancel_requested_at timestamptz,
  add column cancel_request json;

-- A checkpoint is replaced at every step. Up to half a page it stays in its row as it is, so that the row is still rewritten in
-- place. (Batches of 100 documents of 2 KiB: 38 µs a row when they are compressed, 24 when not, of which 13 go into parsing.)
alter table cortex.job set (toast_tuple_target = 4080);
do $$ begin
  alter table cortex.job alter column checkpoint set compression lz4;
exception when feature_not_supported then
  alter table cortex.job alter column checkpoint set storage external;
end $$;

-- Large results, and the sealed segments of long checkpoints, which have a number.
-- A result of some KiB is not compressed either (22 µs instead of 80).
create table cortex.job_blob (
  job_id uuid not null,
  sha256 text not null check (length(sha256) = 64),
  content text not null,
  seq int check (seq > 0),
  created_at timestamptz not null default cortex.now(),
  primary key (job_id, sha256)
) with (toast_tuple_target = 8160);
create unique index job_blob_segment on cortex.job_blob (job_id, seq) where seq is not null;

create table cortex.job_event (
  seq bigint generated always as identity primary key,
  job_id uuid not null,
  run_id uuid not null,
  at timestamptz not null,
  kind text not null check (kind <> ''),
  data jsonb not null
);
create index job_event_of_job on cortex.job_event (job_id, seq);

create trigger blob_no_update before update on cortex.job_blob for each row execute function cortex.refuse_change();
create trigger blob_no_delete before delete on cortex.job_blob
  for each row execute function cortex.refuse_while_job_exists();
create trigger blob_no_truncate before truncate on cortex.job_blob execute function cortex.refuse_change();

create function cortex.job_left_nothing() returns trigger language plpgsql
  set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
  _gone uuid[] := array(select id from old_job);
begin
  delete from cortex.job_blob where job_id = any (_gone);
  delete from cortex.job_event where job_id = any (_gone);
  delete from cortex.job_hold where job_id = any (_gone);
  return null;
end $$;
create trigger job_left_nothing after delete on cortex.job
  referencing old table as old_job
  for each statement execute function cortex.job_left_nothing();

-- ---------------------------------------------------------------------------
-- What workers call
-- ---------------------------------------------------------------------------

-- Saves a batch of checkpoints, each fenced by its run id and by the checkpoint that it follows; one that is there already is
-- the same write, repeated because its answer was lost. Returns the ids of the jobs to which they applied.
-- Documents come one by one, not as parts of a larger one: so each is parsed once.
create function cortex.save_checkpoints(
  _jobs uuid[], _runs uuid[], _ids uuid[], _previous uuid[], _documents text[], _costs bigint[],
  _blob_jobs uuid[], _blob_digests text[], _blob_contents text[], _blob_seqs int[]
) returns setof uuid language plpgsql
  set lock_timeout = '250ms' set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
declare
  _applied uuid[];
begin
  with saved as (
    update cortex.job j
    set checkpoint = c.document::json,
      checkpoint_id = c.id,
      cost_cents = j.cost_cents + case when j.checkpoint_id = c.id then 0 else c.cost_cents end,
      updated_at = greatest(cortex.now(), j.updated_at)
    from unnest(_jobs, _runs, _ids, _previous, _documents, _costs)
      as c(job_id, run_id, id, previous_id, document, cost_cents)
    where j.id = c.job_id
      and j.run_id = c.run_id
      and (j.checkpoint_id is not distinct from c.previous_id or j.checkpoint_id = c.id)
    returning j.id
  )
  select array_agg(id) into _applied from saved;
  if cardinality(_blob_jobs) > 0 and _applied is not null then
    insert into cortex.job_blob (job_id, sha256, content, seq)
    select b.job_id, b.sha256, b.content, b.seq
    from unnest(_blob_jobs, _blob_digests, _blob_contents, _blob_seqs) as b(job_id, sha256, content, seq)
    where cardinality(_applied) = cardinality(_jobs) or b.job_id = any (_applied)
    on conflict (job_id, sha256) do nothing;
  end if;
  return query select unnest(_applied);
end $$;

-- The record of a job as the specification has it: its checkpoint, with the log, the tool calls and the recorded steps of its
-- segments put back. Of a call that is in several, the newest counts. `crc32` stays that of job.checkpoint.
create function cortex.whole_checkpoint(_job uuid, _checkpoint jsonb) returns jsonb language sql stable as $$
  with sealed as (
    select _checkpoint #> '{memory_context,working_data,$cortex,sealed}' as named
  ), part as (
    select b.seq, b.content::jsonb as content
    from sealed, cortex.job_blob b
    where b.job_id = _job and b.seq between (named ->> 'first')::int and (named ->> 'last')::int
    union all
    select 2147483647, jsonb_build_object(
      'execution_log', _checkpoint -> 'execution_log', 'active_tools', _checkpoint -> 'active_tools',
      'steps', coalesce(_checkpoint #> '{memory_context,working_data,$cortex,steps}', '{}'))
  ), logged as (
    select jsonb_agg(l.entry order by p.seq, l.place) as log
    from part p, jsonb_array_elements(p.content -> 'execution_log') with ordinality as l(entry, place)
  ), tool as (
    select distinct on (t.entry ->> 'invocation_id') t.entry, p.seq, t.place
    from part p, jsonb_array_elements(p.content -> 'active_tools') with ordinality as t(entry, place)
    order by t.entry ->> 'invocation_id', p.seq desc, t.place desc
  ), step as (
    select distinct on (s.key) s.key, s.value
    from part p, jsonb_each(p.content -> 'steps') as s(key, value)
    order by s.key, p.seq desc
  )
  select case when sealed.named is null then _checkpoint else
    jsonb_set(
      jsonb_set(
        jsonb_set(_checkpoint #- '{memory_context,working_data,$cortex,sealed}', '{execution_log}', logged.log),
        '{active_tools}', coalesce((select jsonb_agg(entry order by seq, place) from tool), '[]')),
      '{memory_context,working_data,$cortex,steps}',
      (select jsonb_object_agg(key, value) from step where not value ? 'again'))
    end
  from sealed, logged
$$;
create view cortex.job_checkpoint as
select id as job_id, checkpoint_id, cortex.whole_checkpoint(id, checkpoint::jsonb) as checkpoint
from cortex.job
where checkpoint is not null;
comment on view cortex.job_checkpoint is 'The checkpoint of each job, whole: job.checkpoint with its sealed segments put back; crc32 is that of job.checkpoint.';

-- Whether a job that is ended by the clock was cancelled: it never ran, or somebody asked for it.
create function cortex.ends_cancelled(_job cortex.job) returns boolean language sql immutable as $$
  select _job.status = 'PENDING' or (_job.cancel_requested_at is not null and _job.cancel_request ->> 'kind' = 'cancel')
$$;

-- A job that was asked to end while it has an open cleanup scope is called once more: if it waits, at once. It is ended when
-- the time for that is over.
create function cortex.job_asked_to_end() returns trigger language plpgsql set enable_seqscan = off set jit = off as $$
begin
  insert into cortex.job_deadline as d (job_id, at)
  values (new.id, new.cancel_requested_at + new.cleanup_seconds * interval '1 second')
  on conflict (job_id) do update
    set at = case when d.at <= new.cancel_requested_at then excluded.at else least(d.at, excluded.at) end;
  insert into cortex.audit_log (at, tenant_id, actor, action, object_type, object_id, reason)
  values (new.cancel_requested_at, new.tenant_id, new.cancel_request ->> 'actor', 'JOB_CANCEL_REQUESTED', 'job', new.id::text,
    new.cancel_request ->> 'reason');
  if new.worker_id is not null then
    perform pg_notify('cortex', 'cancel:' || new.worker_id);
  end if;
  if new.status = 'RETRY' then
    update cortex.queue_entry
      set due_at = new.cancel_requested_at,
        state = case when serial_key is null then 'ready'::cortex.entry_state else 'blocked' end
      where job_id = new.id and state = 'later';
    if new.serial_key is null then
      perform pg_notify('cortex', 'ready:' || new.queue);
    else
      perform cortex.settle_serial_keys(array[new.tenant_id], array[new.serial_key]);
    end if;
  end if;
  return null;
end $$;
create trigger job_asked_to_end after update of cancel_requested_at on cortex.job
  for each row when (new.cancel_requested_at is not null and old.cancel_requested_at is null)
  execute function cortex.job_asked_to_end();

-- ---------------------------------------------------------------------------
-- Parents and children
-- ---------------------------------------------------------------------------

-- Called last, when the entries of a change are made. Nothing here waits for a lock, so the order does not matter.

-- A job that goes to wait for a child which has ended, or which is not there, is due at once.
--
-- No wake-up is lost between the two, and neither waits for the other:
--   the child has ended                              it is seen here
--   somebody is ending it now, and holds its row     it cannot be locked, counts as ended, and the job looks again
--   nobody has begun to end it                       whoever does now waits for our lock, and finds the job waiting
create function cortex.look_for_ended_children(_jobs uuid[]) returns void language plpgsql
  set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_nestloop = on
as $$
declare
  _live uuid[] := array(
    select c.id from cortex.job c
    where c.id = any (array(select (p.note ->> 'child')::uuid from cortex.job p where p.id = any (_jobs)))
      and c.finished_at is null
    order by c.id
    for share skip locked);
begin
  perform cortex.make_due(array(
    select p.id from cortex.job p where p.id = any (_jobs) and (p.note ->> 'child')::uuid <> all (_live)));
end $$;

-- Makes jobs due at once that wait for a child. What somebody else holds is left to its timer.
create function cortex.make_due(_jobs uuid[]) returns void language plpgsql
  set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_nestloop = on
as $$
declare
  _due uuid[];
begin
  _due := array(
    select job_id from cortex.queue_entry
    where job_id = any (_jobs) and state = 'later'
    order by job_id
    for update skip locked);
  _due := array(
    select id from cortex.job
    where id = any (_due) and status = 'RETRY' and wait_reason = 'child'
    order by id
    for update skip locked);
  if cardinality(_due) = 0 then
    return;
  end if;
  update cortex.job
    set next_retry_at = greatest(cortex.now(), updated_at), updated_at = greatest(cortex.now(), updated_at)
    where id = any (_due);
  update cortex.queue_entry
    set due_at = cortex.now(),
      state = case
        when serial_key is null then 'ready'::cortex.entry_state
        else 'blocked'
      end
    where job_id = any (_due);
  perform pg_notify('cortex', 'ready:' || queue) from cortex.queue_entry
    where job_id = any (_due) and state = 'ready' group by queue;
  perform cortex.settle_serial_keys(array_agg(tenant_id), array_agg(serial_key)) from cortex.queue_entry
    where job_id = any (_due) and state = 'blocked' having count(*) > 0;
end $$;

-- Of the jobs, those that have children which are to end with them get a job that sees to it.
create function cortex.ask_to_cancel_children(_parents uuid[]) returns void language sql
  set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_nestloop = on
as $$
  insert into cortex.job (tenant_id, agent_id, job_type, queue, payload, max_retries, created_by, cause, actor)
  select p.tenant_id, a.id, a.job_type, 'cortex', jsonb_build_object('parent_id', p.id),
    coalesce((a.skill_config #>> '{retry,max_retries}')::int, 3), a.job_type, 'submit', a.job_type
  from cortex.job p
  join cortex.agent a on a.job_type = 'cortex.children'
  where p.id = any (_parents)
    and exists (select 1 from cortex.job c where c.parent_id = p.id and c.cancel_with_parent and c.finished_at is null)
  order by p.id;
$$;

-- A child that is born while its parent ends, or after, would be seen by nobody else. One that can be locked has not ended, and
-- whoever ends it now waits, and sees the child. A retry that an operator asked for is meant to run.
create function cortex.job_born_late() returns trigger language plpgsql
  set jit = off set enable_seqscan = off
as $$
declare
  _parents uuid[];
  _live uuid[];
begin
  if not exists (select 1 from new_job where cancel_with_parent) then
    return null;
  end if;
  _parents := array(
    select distinct parent_id from new_job
    where cancel_with_parent and parent_id is not null and (retry_of is null or retry_count > 0));
  _live := array(
    select id from cortex.job
    where id = any (_parents) and status <> 'FAILED' and status <> 'CANCELLED'
    order by id
    for share skip locked);
  if cardinality(_live) < cardinality(_parents) then
    perform cortex.ask_to_cancel_children(array(select p from unnest(_parents) as p where p <> all (_live)));
  end if;
  return null;
end $$;
create trigger job_born_late after insert on cortex.job
  referencing new table as new_job
  for each statement execute function cortex.job_born_late();

-- ---------------------------------------------------------------------------
-- Jobs whose record does not fit the code
-- ---------------------------------------------------------------------------

-- Which code did not fit the record of a job: a worker that has this code hands the job back while others may have code that fits.
create table cortex.job_hold (
  job_id uuid primary key,
  job_type text not null,
  codes jsonb not null check (jsonb_typeof(codes) = 'array'),
  offered jsonb not null default '[]' check (jsonb_typeof(offered) = 'array'),
  handed_back int not null default 0 check (handed_back >= 0),
  error jsonb,
  held_at timestamptz not null
);
create index job_hold_of_agent on cortex.job_hold (job_type);

-- A trigger of rows: its condition is judged without calling anything, and holds for no other job.
create function cortex.job_held() returns trigger language plpgsql set jit = off set enable_seqscan = off as $$
declare
  _code text := new.note ->> 'code';
  _tried boolean := not new.note ? 'handed_back';
begin
  insert into cortex.job_hold as h (job_id, job_type, codes, error, held_at)
  values (new.id, new.job_type, jsonb_build_array(_code), new.error, new.updated_at)
  on conflict (job_id) do update
  set codes = case when h.codes ? _code then h.codes else h.codes || excluded.codes end,
    offered = case when _tried then '[]' else h.offered end,
    handed_back = case when _tried then 0 else h.handed_back + 1 end,
    error = excluded.error,
    held_at = case when _tried then excluded.held_at else h.held_at end;
  if _tried and not new.note ? 'again' and new.queue <> 'cortex' then
    perform cortex.tell_webhooks_of_hold(new.id);
  end if;
  return null;
end $$;
create trigger job_held after update of status on cortex.job
  for each row when (new.status = 'RETRY' and old.status = 'RUNNING' and new.wait_reason = 'code_changed' and new.note ? 'code')
  execute function cortex.job_held();

comment on column cortex.job.checkpoint_id is 'Id of the newest snapshot; the next one must name it.';
comment on column cortex.job.cleanup_seconds is 'It has an open cleanup scope, and may take so long to clean up; null: it has none.';
comment on column cortex.job.cancel_requested_at is 'When it was asked to end; it is called once more to clean up.';
comment on column cortex.job.cancel_request is 'How it ends then: status, cause, actor, note, error.';
comment on column cortex.job.cancel_with_parent is 'It is cancelled when the job that called it ends FAILED or CANCELLED.';

comment on table cortex.job_blob is 'Large results and sealed segments that checkpoints refer to. Never changed; they go with their job.';
comment on column cortex.job_blob.job_id is 'Its job.';
comment on column cortex.job_blob.sha256 is 'SHA-256 of the content, 64 hexadecimal digits; what the checkpoint holds instead.';
comment on column cortex.job_blob.content is 'The result or the segment, as JSON text.';
comment on column cortex.job_blob.seq is 'Number of a segment in its job, from 1; null for a result.';
comment on column cortex.job_blob.created_at is 'When it was saved.';

comment on table cortex.job_event is 'What runs tell while they go on, for people who watch. They go with their job.';
comment on column cortex.job_event.seq is 'The order in which they were written.';
comment on column cortex.job_event.job_id is 'Of which job.';
comment on column cortex.job_event.run_id is 'Of which run.';
comment on column cortex.job_event.at is 'When it happened.';
comment on column cortex.job_event.kind is 'log or progress.';
comment on column cortex.job_event.data is 'What was told.';

comment on table cortex.job_hold is 'Jobs whose record did not fit the code of a worker, and which code that was. Rows go with their job.';
comment on column cortex.job_hold.job_id is 'Its job.';
comment on column cortex.job_hold.job_type is 'The agent.';
comment on column cortex.job_hold.codes is 'Fingerprints of the code that did not fit.';
comment on column cortex.job_hold.offered is 'Fingerprints of other code that it was made due for since it was tried last.';
comment on column cortex.job_hold.handed_back is 'How often a worker whose code does not fit has claimed it since, and handed it back.';
comment on column cortex.job_hold.error is 'Where record and code differ.';
comment on column cortex.job_hold.held_at is 'When it was tried last.';
