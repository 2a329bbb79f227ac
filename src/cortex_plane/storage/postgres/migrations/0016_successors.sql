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

create function cortex.add_successor(
  _kind text, _job uuid, _new uuid, _actor text, _created_by text, _parent uuid, _checkpoint_id uuid, _checkpoint text
) returns setof uuid language plpgsql
  set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan
as $$
begin
  if exists (select 1 from cortex.job where id = _new) then
    return;
  end if;
  if _kind not in ('chain', 'fork') then
    -- A revocation comes wholly before this, or finds the successor.
    perform 1 from cortex.job j
    join cortex.execution_request r on r.id = j.request_id
    join cortex.execution_grant g on g.id = r.grant_id
    where j.id = _job
    for share of g;
    if exists (
      select 1 from cortex.job j
      join cortex.execution_request r on r.id = j.request_id
      join cortex.execution_grant g on g.id = r.grant_id
      where j.id = _job and g.revoked_at is not null)
    then
      return;
    end if;
  end if;
  return query
    insert into cortex.job (
      id, retry_of, cause, actor, retry_count, run_at,
      {carried}, created_by, submitters, deadline_at,
      group_id, parent_id, cancel_with_parent, schedule_id, request_id, trace_id, effect_root,
      checkpoint_id, checkpoint)
    select
      _new,
      case when _kind <> 'fork' then j.id end,
      case when _kind = 'chain' then 'retry' else _kind end,
      _actor,
      case when _kind = 'chain' then j.retry_count + 1 else 0 end,
      case when _kind = 'chain' then j.updated_at + (j.note ->> 'retry_delay_seconds')::double precision * interval '1 second' end,

      {carried}, coalesce(_created_by, j.created_by),
      case when _kind = 'chain' then j.submitters else (
        select jsonb_agg(distinct b.signature)
        from (
          select e.value as signature from jsonb_array_elements_text(j.submitters) e
          union all select case when _created_by is not null then j.created_by end
          union all select _actor) b
        where b.signature is not null) end,
      case when j.deadline_seconds is null and (_kind = 'chain' or j.deadline_at > cortex.now()) then j.deadline_at end,

      case when _kind <> 'fork' then j.group_id end,
      case when _kind <> 'fork' then coalesce(_parent, j.parent_id) end,
      _kind <> 'fork' and j.cancel_with_parent,
      case when _kind <> 'fork' then j.schedule_id end,
      case when _kind <> 'fork' then j.request_id end,
      case when _kind <> 'fork' then j.trace_id end,
      case when _kind in ('chain', 'resume', 'settle') or (_kind = 'retry' and j.status = 'FAILED') then coalesce(j.effect_root, j.id) end,

      case when _kind in ('chain', 'resume') then j.checkpoint_id when _kind in ('fork', 'settle') then _checkpoint_id end,
      case when _kind in ('chain', 'resume') then j.checkpoint when _kind in ('fork', 'settle') then _checkpoint::json end
    from cortex.job j
    where j.id = _job
      and (_kind = 'fork' or j.status in ('COMPLETED', 'FAILED', 'CANCELLED'))
    on conflict (retry_of) where retry_of is not null do nothing
    returning id;
  if not found or _kind = 'retry' then
    return;
  end if;
  -- Large results, and those segments that its own checkpoint names.
  insert into cortex.job_blob (job_id, sha256, content, seq)
  select j.id, b.sha256, b.content, b.seq
  from cortex.job j
  cross join cortex.job_blob b
  where j.id = _new
    and b.job_id = _job
    and (b.seq is null or b.seq <= (j.checkpoint #>> '{memory_context,working_data,$cortex,sealed,last}')::int);
  if _kind = 'fork' then
    return;
  end if;
  -- The state of a graph stands in the thread that bears its job's id.
  insert into cortex.graph_checkpoint (thread_id, namespace, checkpoint_id, parent_id, run_id, kind, content, channels, metadata)
  select _new::text, namespace, checkpoint_id, parent_id, run_id, kind, content, channels, metadata
  from cortex.graph_checkpoint where thread_id = _job::text;
  insert into cortex.graph_value (thread_id, namespace, channel, version, kind, content)
  select _new::text, namespace, channel, version, kind, content
  from cortex.graph_value where thread_id = _job::text;
  insert into cortex.graph_write (thread_id, namespace, checkpoint_id, task_id, place, channel, task_path, kind, content)
  select _new::text, namespace, checkpoint_id, task_id, place, channel, task_path, kind, content
  from cortex.graph_write where thread_id = _job::text;
end $$;

-- The retries of jobs that ended FAILED and whose policy is `chain`.
create function cortex.chain(_jobs uuid[]) returns void language plpgsql as $$
begin
  perform cortex.add_successor('chain', id, (note ->> 'retry_as')::uuid, actor, null, null, null, null)
    from (select id, note, actor from cortex.job where id = any (_jobs) order by id offset 0) j;
end $$;
