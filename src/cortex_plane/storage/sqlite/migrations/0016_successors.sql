-- Successors: jobs that are made of another job. Which fields a successor takes over is said here, and nowhere else.
--
--              linked by   starts from      retries   effect ids     place in its family, group    grant, schedule, trace
--   chain      retry_of    the checkpoint   counted   the same       kept                          kept
--   resume     retry_of    the checkpoint   fresh     the same       kept                          kept (2)
--   settle     retry_of    the one given    fresh     the same       kept                          kept (2)
--   retry      retry_of    the beginning    fresh     the same (1)   kept                          kept (2)
--   fork       nothing     the one given    fresh     new            left                          left
--
--   A deadline that is a length counts anew; one that is an instant holds, unless it has passed and somebody asks all the same.
--   (1) New ones when the job had COMPLETED or was CANCELLED: then its effects are wanted once more.
--   (2) So what it uses is charged to the grant; none is made once the grant was revoked. A fork is charged to nobody.
--   Whoever had it run again stands behind it from then on, besides those who did before.
--
-- A job has at most one linked successor: retry_of is unique. Called twice with the same id, it changes nothing.

-- A procedure: `insert into successor_to_add` makes the successor.
create view successor_to_add (kind, job_id, id, actor, created_by, parent_id, checkpoint_id, checkpoint, at) as
select null, null, null, null, null, null, null, null, null where false;
create trigger add_successor instead of insert on successor_to_add
when not exists (select 1 from job where id = new.id or (new.kind <> 'fork' and retry_of = new.job_id))
begin
  insert into job (
    id, retry_of, cause, actor, retry_count, run_at,
    {carried}, created_by, submitters, deadline_at,
    group_id, parent_id, cancel_with_parent, schedule_id, request_id, trace_id, effect_root,
    checkpoint_id, checkpoint,
    position, worker_job_id, created_at, queued_at, updated_at)
  select
    new.id,
    iif(new.kind <> 'fork', j.id, null),
    iif(new.kind = 'chain', 'retry', new.kind),
    new.actor,
    iif(new.kind = 'chain', j.retry_count + 1, 0),
    iif(new.kind = 'chain', j.updated_at + cast(round(1000000 * json_extract(j.note, '$.retry_delay_seconds')) as integer), null),

    {carried}, coalesce(new.created_by, j.created_by),
    iif(new.kind = 'chain', j.submitters, (
      select nullif(json_group_array(distinct b.signature), '[]')
      from (
        select e.value as signature from json_each(j.submitters) e
        union all select iif(new.created_by is null, null, j.created_by)
        union all select new.actor) b
      where b.signature is not null)),
    iif(j.deadline_seconds is null and (new.kind = 'chain' or j.deadline_at > new.at), j.deadline_at, null),

    iif(new.kind <> 'fork', j.group_id, null),
    iif(new.kind <> 'fork', coalesce(new.parent_id, j.parent_id), null),
    iif(new.kind <> 'fork', j.cancel_with_parent, 0),
    iif(new.kind <> 'fork', j.schedule_id, null),
    iif(new.kind <> 'fork', j.request_id, null),
    iif(new.kind <> 'fork', j.trace_id, null),
    iif(new.kind in ('chain', 'resume', 'settle') or (new.kind = 'retry' and j.status = 'FAILED'), coalesce(j.effect_root, j.id), null),

    case when new.kind in ('chain', 'resume') then j.checkpoint_id when new.kind in ('fork', 'settle') then new.checkpoint_id end,
    case when new.kind in ('chain', 'resume') then j.checkpoint when new.kind in ('fork', 'settle') then new.checkpoint end,

    (select value + 100 from counter where name = 'position'),
    (select value + 1 from counter where name = 'queue_entry'),
    new.at, new.at, new.at
  from job j
  where j.id = new.job_id
    and (new.kind = 'fork' or j.status in ('COMPLETED', 'FAILED', 'CANCELLED'))
    and (new.kind in ('chain', 'fork') or not exists (
      select 1 from execution_request r join execution_grant g on g.id = r.grant_id
      where r.id = j.request_id and g.revoked_at is not null));
  -- Large results, and those segments that its own checkpoint names.
  insert into job_blob (job_id, sha256, content, seq, created_at)
  select j.id, b.sha256, b.content, b.seq, new.at
  from job j
  cross join job_blob b
  where j.id = new.id
    and b.job_id = new.job_id
    and (b.seq is null or b.seq <= j.checkpoint ->> '$.memory_context.working_data."$cortex".sealed.last')
    and new.kind <> 'retry';
  -- The state of a graph stands in the thread that bears its job's id.
  insert into graph_checkpoint
    (thread_id, namespace, checkpoint_id, parent_id, run_id, kind, content, channels, metadata, created_at)
  select j.id, c.namespace, c.checkpoint_id, c.parent_id, c.run_id, c.kind, c.content, c.channels, c.metadata, new.at
  from job j
  cross join graph_checkpoint c
  where j.id = new.id and c.thread_id = new.job_id and new.kind in ('chain', 'resume', 'settle');
  insert into graph_value (thread_id, namespace, channel, version, kind, content)
  select j.id, v.namespace, v.channel, v.version, v.kind, v.content
  from job j
  cross join graph_value v
  where j.id = new.id and v.thread_id = new.job_id and new.kind in ('chain', 'resume', 'settle');
  insert into graph_write (thread_id, namespace, checkpoint_id, task_id, place, channel, task_path, kind, content)
  select j.id, w.namespace, w.checkpoint_id, w.task_id, w.place, w.channel, w.task_path, w.kind, w.content
  from job j
  cross join graph_write w
  where j.id = new.id and w.thread_id = new.job_id and new.kind in ('chain', 'resume', 'settle');
end;

-- The retry of a job that ended FAILED and whose policy is `chain`.
create trigger job_chained after update of status on job
when new.status = 'FAILED' and old.status <> 'FAILED' and new.revision <> old.revision
  and json_extract(new.note, '$.retry_as') is not null
begin
  insert into successor_to_add (kind, job_id, id, actor, at)
  values ('chain', new.id, json_extract(new.note, '$.retry_as'), new.actor, new.updated_at);
end;
