-- name: all
-- The newest jobs before :before.
select j.id
from cortex.job j
where j.id < :before
order by j.id desc
limit (select cast(:limit as bigint));

-- name: asking
-- The newest jobs before :before that have an open request for approval.
select distinct a.job_id as id
from cortex.approval_request a
where a.outcome is null
  and a.job_id < :before
order by a.job_id desc
limit (select cast(:limit as bigint));

-- name: created
-- When the newest job before :before was created.
select j.id, j.created_at
from cortex.job j
where j.id < :before
order by j.id desc
limit 1;

-- name: of_agent [postgres]
-- The newest jobs of one agent before :before.
-- Differs: with an equality, the planner may read all of the newest by the primary key and leave out most of them.
select j.id
from cortex.job j
where j.agent_id >= :agent_id
  and (j.agent_id, j.id) < (:agent_id, :before)
order by j.agent_id desc, j.id desc
limit (select cast(:limit as bigint));

-- name: of_agent [sqlite]
-- The newest jobs of one agent before :before.
-- Differs: an equality is always answered from the index that has it.
select j.id
from cortex.job j
where j.agent_id = :agent_id
  and j.id < :before
order by j.id desc
limit :limit;

-- name: of_queue [postgres]
-- The newest jobs of one queue before :before.
-- Differs: with an equality, the planner may read all of the newest by the primary key and leave out most of them.
select j.id
from cortex.job j
where j.queue >= :queue
  and (j.queue, j.id) < (:queue, :before)
order by j.queue desc, j.id desc
limit (select cast(:limit as bigint));

-- name: of_queue [sqlite]
-- The newest jobs of one queue before :before.
-- Differs: an equality is always answered from the index that has it.
select j.id
from cortex.job j
where j.queue = :queue
  and j.id < :before
order by j.id desc
limit :limit;

-- name: of_tag
-- The newest jobs with one tag before :before.
select t.job_id as id
from cortex.job_tag t
where t.tag = :tag
  and t.job_id < :before
order by t.job_id desc
limit (select cast(:limit as bigint));

-- name: of_tenant [postgres]
-- The newest jobs of one tenant before :before.
-- Differs: with an equality, the planner may read all of the newest by the primary key and leave out most of them.
select j.id
from cortex.job j
where j.tenant_id >= :tenant_id
  and (j.tenant_id, j.id) < (:tenant_id, :before)
order by j.tenant_id desc, j.id desc
limit (select cast(:limit as bigint));

-- name: of_tenant [sqlite]
-- The newest jobs of one tenant before :before.
-- Differs: an equality is always answered from the index that has it.
select j.id
from cortex.job j
where j.tenant_id = :tenant_id
  and j.id < :before
order by j.id desc
limit :limit;

-- name: oldest
-- The oldest job.
select j.id
from cortex.job j
order by j.id
limit 1;

-- name: pick [postgres]
-- Those of the jobs that are as asked for, newest first. The plane's own are left out unless their queue is named.
-- Differs: lists are arrays and jsonb, and the fence (offset 0) keeps the join a look-up by index.
select j.id, j.tenant_id, j.job_type, j.queue, j.status, j.priority, j.attempt, j.failed_runs, j.retry_count, j.max_retries, j.next_retry_at,
  j.wait_reason, j.note ->> 'child' as child_id, j.cancel_requested_at, j.error_message, j.tags,
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

-- name: pick [sqlite]
-- Those of the jobs that are as asked for, newest first. The plane's own are left out unless their queue is named.
-- Differs: lists are JSON text.
select j.id, j.tenant_id, j.job_type, j.queue, j.status, j.priority, j.attempt, j.failed_runs, j.retry_count, j.max_retries, j.next_retry_at,
  j.wait_reason, j.note ->> 'child' as child_id, j.cancel_requested_at, j.error_message, j.tags,
  j.cost_cents, j.revision, j.created_at, j.updated_at, j.finished_at
from json_each(:ids) i
join cortex.job j on j.id = i.value
where (:tenant_id is null or j.tenant_id = :tenant_id)
  and (:status is null or j.status = :status)
  and (:agent_id is null or j.agent_id = :agent_id)
  and (j.queue = :queue or (:queue is null and j.queue <> 'cortex'))
  and (:tag is null or exists (select 1 from json_each(j.tags) t where t.value = :tag))
  and (:text is null or instr(lower(j.payload), lower(:text)) > 0)
  and j.created_at >= :since
  and j.created_at < :until
order by j.id desc
limit :limit;

-- name: running
-- The newest jobs before :before that have an open run.
select r.job_id as id
from cortex.open_run r
where r.job_id < :before
order by r.job_id desc
limit (select cast(:limit as bigint));

-- name: unsuccessful
-- The newest jobs before :before that ended FAILED or CANCELLED, found through their last line of history.
select h.job_id as id
from cortex.job_history h
where h.new_status in ('FAILED', 'CANCELLED')
  and h.job_id < :before
order by h.job_id desc
limit (select cast(:limit as bigint));

-- name: waiting
-- The newest jobs before :before that have a place in a queue.
select e.job_id as id
from cortex.queue_entry e
where e.job_id < :before
order by e.job_id desc
limit (select cast(:limit as bigint));
