-- Those of the jobs that are as asked for, newest first. The plane's own are left out unless their queue is named.
-- Differs: lists are arrays and jsonb, and the fence (offset 0) keeps the join a look-up by index.
select j.id, j.tenant_id, j.job_type, j.queue, j.status, j.priority, j.attempt, j.wait_reason, j.error_message, j.tags,
  j.cost_cents, j.revision, j.created_at, j.updated_at, j.finished_at
from unnest(cast(:ids as uuid[])) as i(id)
cross join lateral (select * from cortex.job where id = i.id offset 0) j
where (cast(:tenant_id as text) is null or cast(j.tenant_id as text) = cast(:tenant_id as text))
  and (cast(:status as text) is null or cast(j.status as text) = cast(:status as text))
  and (cast(:agent_id as text) is null or cast(j.agent_id as text) = cast(:agent_id as text))
  and (j.queue = cast(:queue as text) or (cast(:queue as text) is null and j.queue <> 'cortex'))
  and (cast(:tag as text) is null or jsonb_exists(j.tags, cast(:tag as text)))
  and (cast(:text as text) is null or position(lower(cast(:text as text)) in lower(cast(j.payload as text))) > 0)
  and j.created_at >= :since
  and j.created_at < :until
order by j.id desc
limit :limit;
