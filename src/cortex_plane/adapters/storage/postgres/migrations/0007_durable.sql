-- Durable agents: checkpoints and the large results that they refer to, events, and jobs that other jobs have called.
--
--   a child ends ──▶ its parent, if it waits for a child, is due at once
--   a parent ends undone ──▶ a job for the agent `cortex.children` ──▶ the children that end with it are cancelled
--
-- Whoever ends or suspends a job never waits for its family: what somebody else holds is passed over, and looked at later.

alter table cortex.job
  add column checkpoint_id uuid,
  add column checkpoint_added json,
  add column cancel_with_parent boolean not null default false;

-- A checkpoint is replaced at every step. Up to half a page it stays in its row as it is, so that the row is still rewritten in
-- place. (Batches of 100 documents of 2 KiB: 38 µs a row when they are compressed, 24 when not, of which 13 go into parsing.)
alter table cortex.job set (toast_tuple_target = 4080);
do $$ begin
  alter table cortex.job alter column checkpoint set compression lz4;
exception when feature_not_supported then
  alter table cortex.job alter column checkpoint set storage external;
end $$;
alter table cortex.job alter column checkpoint_added set storage external;

-- A result of some KiB is not compressed either (22 µs instead of 80).
create table cortex.job_blob (
  job_id uuid not null,
  sha256 text not null check (length(sha256) = 64),
  content text not null,
  created_at timestamptz not null default cortex.now(),
  primary key (job_id, sha256)
) with (toast_tuple_target = 8160);

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
  set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
  _gone uuid[] := array(select id from old_job);
begin
  delete from cortex.job_blob where job_id = any (_gone);
  delete from cortex.job_event where job_id = any (_gone);
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
-- A document replaces the one before, with what was added to that; an addition comes without a document, and leaves it.
-- Documents come one by one, not as parts of a larger one: so each is parsed once.
create function cortex.save_checkpoints(
  _jobs uuid[], _runs uuid[], _ids uuid[], _previous uuid[], _documents text[], _added text[], _costs bigint[],
  _blob_jobs uuid[], _blob_digests text[], _blob_contents text[]
) returns setof uuid language plpgsql
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
as $$
declare
  _applied uuid[];
begin
  with saved as (
    update cortex.job j
    set checkpoint = coalesce(c.document::json, j.checkpoint),
      checkpoint_added = c.added::json,
      checkpoint_id = c.id,
      cost_cents = j.cost_cents + case when j.checkpoint_id = c.id then 0 else c.cost_cents end,
      updated_at = greatest(cortex.now(), j.updated_at)
    from unnest(_jobs, _runs, _ids, _previous, _documents, _added, _costs)
      as c(job_id, run_id, id, previous_id, document, added, cost_cents)
    where j.id = c.job_id
      and j.run_id = c.run_id
      and (j.checkpoint_id is not distinct from c.previous_id or j.checkpoint_id = c.id)
    returning j.id
  )
  select array_agg(id) into _applied from saved;
  if cardinality(_blob_jobs) > 0 and _applied is not null then
    insert into cortex.job_blob (job_id, sha256, content)
    select b.job_id, b.sha256, b.content
    from unnest(_blob_jobs, _blob_digests, _blob_contents) as b(job_id, sha256, content)
    where cardinality(_applied) = cardinality(_jobs) or b.job_id = any (_applied)
    on conflict (job_id, sha256) do nothing;
  end if;
  return query select unnest(_applied);
end $$;

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
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_nestloop = on
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
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_nestloop = on
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
  -- To wait here for the lock of a serial key, with those of other keys in hand, could be a deadlock. Without it the entry
  -- stays `later`, and whoever promotes what is due settles the key.
  update cortex.queue_entry
    set due_at = cortex.now(),
      state = case
        when serial_key is null then 'ready'::cortex.entry_state
        when pg_try_advisory_xact_lock(1129270867, mod(hashtext(tenant_id::text || serial_key), 1024)) then 'blocked'
        else 'later'
      end
    where job_id = any (_due);
  perform pg_notify('cortex', 'ready:' || queue) from cortex.queue_entry
    where job_id = any (_due) and state = 'ready' group by queue;
  perform cortex.settle_serial_keys(array_agg(tenant_id), array_agg(serial_key)) from cortex.queue_entry
    where job_id = any (_due) and state = 'blocked' having count(*) > 0;
end $$;

-- Of the jobs, those that have children which are to end with them get a job that sees to it.
create function cortex.ask_to_cancel_children(_parents uuid[]) returns void language sql
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_nestloop = on
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
  set enable_seqscan = off
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

comment on column cortex.job.checkpoint_id is 'Id of the newest snapshot; the next one must name it.';
comment on column cortex.job.checkpoint_added is 'What the newest snapshot has that the one written whole has not.';
comment on column cortex.job.cancel_with_parent is 'It is cancelled when the job that called it ends FAILED or CANCELLED.';

comment on table cortex.job_blob is 'Large results that checkpoints refer to. Never changed; they go with their job.';
comment on column cortex.job_blob.job_id is 'Its job.';
comment on column cortex.job_blob.sha256 is 'SHA-256 of the content, 64 hexadecimal digits; what the checkpoint holds instead.';
comment on column cortex.job_blob.content is 'The result, as JSON text.';
comment on column cortex.job_blob.created_at is 'When it was saved.';

comment on table cortex.job_event is 'What runs tell while they go on, for people who watch. They go with their job.';
comment on column cortex.job_event.seq is 'The order in which they were written.';
comment on column cortex.job_event.job_id is 'Of which job.';
comment on column cortex.job_event.run_id is 'Of which run.';
comment on column cortex.job_event.at is 'When it happened.';
comment on column cortex.job_event.kind is 'log or progress.';
comment on column cortex.job_event.data is 'What was told.';
