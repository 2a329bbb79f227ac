-- name: add [postgres]
-- A group, before its members. Sent twice, it changes nothing: the id is the caller's, and a key belongs to one group.
-- Differs: PostgreSQL wants to be told the types.
insert into cortex.job_group (id, tenant_id, name, group_key, request_hash, mode, on_failure, callback, created_by)
values (cast(:id as uuid), cast(:tenant_id as uuid), cast(:name as text), cast(:group_key as text), cast(:request_hash as text),
  :mode, :on_failure, cast(:callback as jsonb), cast(:created_by as text))
on conflict do nothing;

-- name: add [sqlite]
-- A group, before its members. Sent twice, it changes nothing: the id is the caller's, and a key belongs to one group.
-- Differs: PostgreSQL wants to be told the types.
insert into cortex.job_group (id, tenant_id, name, group_key, request_hash, mode, on_failure, callback, created_by, created_at)
values (:id, :tenant_id, :name, :group_key, :request_hash, :mode, :on_failure, :callback, :created_by, :now)
on conflict do nothing;

-- name: by_key
-- The group that has this key.
select id, request_hash from cortex.job_group where tenant_id = :tenant_id and group_key = :group_key;

-- name: failures
-- The members that failed since the group was looked at last.
select job_id from cortex.group_failure
where group_id = :id;

-- name: find
-- Groups whose ids begin alike, at most five.
-- With a tenant, only its own among the newest :looked_at that begin so: others' count for nothing, and no search is long.
select id
from (
  select id, tenant_id
  from cortex.job_group
  where id between :low and :high
  order by id desc
  limit :looked_at
) as newest
where cast(:tenant_id as text) is null or cast(tenant_id as text) = cast(:tenant_id as text)
order by id
limit 5;

-- name: finish [postgres]
-- No member is open any more. No row means that this was known.
-- Differs: PostgreSQL wants to be told the types.
update cortex.job_group
set finished_at = :now, callback_job_id = cast(:callback_job_id as uuid)
where id = cast(:id as uuid) and finished_at is null
returning id;

-- name: finish [sqlite]
-- No member is open any more. No row means that this was known.
-- Differs: PostgreSQL wants to be told the types.
update cortex.job_group
set finished_at = :now, callback_job_id = :callback_job_id
where id = :id and finished_at is null
returning id;

-- name: first_failed
-- The member that failed for good first.
select j.id
from cortex.job j
where j.group_id = :id
  and j.status = 'FAILED'
  and not exists (select 1 from cortex.job r where r.retry_of = j.id and r.group_id = :id)
order by j.finished_at, j.id
limit 1;

-- name: first_held
-- The member whose turn is next.
select e.job_id
from cortex.job j
join cortex.queue_entry e on e.job_id = j.id
where j.group_id = :id
  and e.state = 'held'
order by j.id
limit 1;

-- name: first_members
-- The jobs that a group was submitted with, in their order.
select id from cortex.job where group_id = :id and retry_of is null order by id;

-- name: forget_failure
-- The group was looked at after this member had failed: what follows from that is done, or nothing does.
delete from cortex.group_failure
where job_id = :job_id;

-- name: get
-- One group, and how many of its members stand where. A member that was retried stands where its last retry does.
select g.id, g.tenant_id, g.name, g.mode, g.on_failure, g.callback, g.callback_job_id, g.created_by, g.created_at, g.finished_at,
  g.stopping, m.waiting, m.held, m.under_way, m.completed, m.failed, m.cancelled
from cortex.job_group g
left join (
  select j.group_id,
    count(*) filter (where j.status = 'PENDING' and e.job_id is null and j.retry_of is null) as waiting,
    count(*) filter (where e.job_id is not null) as held,
    count(*) filter (where (j.status = 'PENDING' and e.job_id is null and j.retry_of is not null)
      or j.status in ('RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')) as under_way,
    count(*) filter (where j.status = 'COMPLETED') as completed,
    count(*) filter (where j.status = 'FAILED') as failed,
    count(*) filter (where j.status = 'CANCELLED') as cancelled
  from cortex.job j
  left join cortex.queue_entry e on e.job_id = j.id and e.state = 'held'
  where j.group_id = :id
    and not exists (select 1 from cortex.job r where r.retry_of = j.id and r.group_id = :id)
  group by j.group_id
) m on m.group_id = g.id
where g.id = :id;

-- name: let_go [postgres]
-- Lets a held member wait as any other job does.
-- Differs: a function wakes the workers, and settles the serial key under its lock.
select cortex.let_go(cast(:job_id as uuid)) as let_go;

-- name: let_go [sqlite]
-- Lets a held member wait as any other job does.
-- Differs: a trigger settles the serial key, and any commit wakes the workers.
update cortex.queue_entry
set state = case when due_at > :now then 'later' when serial_key is not null then 'blocked' else 'ready' end
where job_id = :job_id and state = 'held'
returning 1 as let_go;

-- name: list [postgres]
-- The newest groups of a tenant before :before, and how many members of each stand where.
-- Differs: the fences (offset 0, limit 1) keep every join a look-up by index, so that a page never reads all jobs.
with page as materialized (
  select id, tenant_id, name, mode, on_failure, callback, callback_job_id, created_by, created_at, finished_at, stopping
  from cortex.job_group
  where tenant_id = :tenant_id and id < :before
  order by id desc
  limit :limit
)
select g.id, g.tenant_id, g.name, g.mode, g.on_failure, g.callback, g.callback_job_id, g.created_by, g.created_at, g.finished_at,
  g.stopping, m.waiting, m.held, m.under_way, m.completed, m.failed, m.cancelled
from page g
cross join lateral (
  select
    count(*) filter (where j.status = 'PENDING' and e.job_id is null and j.retry_of is null) as waiting,
    count(*) filter (where e.job_id is not null) as held,
    count(*) filter (where (j.status = 'PENDING' and e.job_id is null and j.retry_of is not null)
      or j.status in ('RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')) as under_way,
    count(*) filter (where j.status = 'COMPLETED') as completed,
    count(*) filter (where j.status = 'FAILED') as failed,
    count(*) filter (where j.status = 'CANCELLED') as cancelled
  from (select id, group_id, status, retry_of from cortex.job where group_id = g.id offset 0) j
  left join lateral (select q.job_id from cortex.queue_entry q where q.job_id = j.id and q.state = 'held' limit 1) e on true
  left join lateral (select r.id from cortex.job r where r.retry_of = j.id and r.group_id = j.group_id limit 1) again on true
  where again.id is null) m
order by g.id desc;

-- name: list [sqlite]
-- The newest groups of a tenant before :before, and how many members of each stand where.
-- Differs: here the joins need no fences.
with page as (
  select id, tenant_id, name, mode, on_failure, callback, callback_job_id, created_by, created_at, finished_at, stopping
  from cortex.job_group
  where tenant_id = :tenant_id and id < :before
  order by id desc
  limit :limit
), member as (
  select j.group_id,
    count(*) filter (where j.status = 'PENDING' and e.job_id is null and j.retry_of is null) as waiting,
    count(*) filter (where e.job_id is not null) as held,
    count(*) filter (where (j.status = 'PENDING' and e.job_id is null and j.retry_of is not null)
      or j.status in ('RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')) as under_way,
    count(*) filter (where j.status = 'COMPLETED') as completed,
    count(*) filter (where j.status = 'FAILED') as failed,
    count(*) filter (where j.status = 'CANCELLED') as cancelled
  from cortex.job j
  left join cortex.queue_entry e on e.job_id = j.id and e.state = 'held'
  where j.group_id in (select id from page)
    and not exists (select 1 from cortex.job r where r.retry_of = j.id and r.group_id = j.group_id)
  group by j.group_id
)
select page.id, page.tenant_id, page.name, page.mode, page.on_failure, page.callback, page.callback_job_id, page.created_by,
  page.created_at, page.finished_at, page.stopping, m.waiting, m.held, m.under_way, m.completed, m.failed, m.cancelled
from page
left join member m on m.group_id = page.id
order by page.id desc;

-- name: live_members
-- Every member of a group that has not ended.
select id from cortex.job
where group_id = :id
  and status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL');

-- name: lock [postgres]
-- Locks a group: one look at its members at a time. No row means that there is none.
-- Differs: the lock.
select id
from cortex.job_group
where id = cast(:id as uuid)
for update;

-- name: lock [sqlite]
-- Finds a group. No row means that there is none.
-- Differs: whoever writes is alone, so there is nothing to lock.
select id
from cortex.job_group
where id = :id;

-- name: mark_stopping
-- From now on a failure does nothing more to the members of this group.
update cortex.job_group
set stopping = true
where id = :id;

-- name: members
-- The members of a group in their order, retries of them last.
select j.id, j.job_type, j.queue, j.status, j.attempt, j.retry_of, j.error_message, j.created_at, j.finished_at,
  exists (select 1 from cortex.queue_entry e where e.job_id = j.id and e.state = 'held') as held
from cortex.job j
where j.group_id = :id and j.id > :after
order by j.id
limit :limit;

-- name: skip [postgres]
-- Ends members that have not begun, each with a run that says so. A member that has begun meanwhile is left alone.
-- Differs: a batch is a jsonb record set here.
update cortex.job j
set status = 'CANCELLED',
  worker_job_id = null,
  cause = 'group',
  revision = j.revision + 1,
  updated_at = greatest(:now, j.updated_at),
  finished_at = greatest(:now, j.updated_at),
  actor = cast(:actor as text),
  note = jsonb_build_object('reason', cast(:reason as text), 'skipped_as', s.run_id)
from jsonb_to_recordset(cast(:skipped as jsonb)) as s(id uuid, run_id uuid)
where j.id = s.id
  and j.status = 'PENDING'
returning j.id;

-- name: skip [sqlite]
-- Ends members that have not begun, each with a run that says so. A member that has begun meanwhile is left alone.
-- Differs: a batch is jsonb_each here.
update cortex.job as j
set status = 'CANCELLED',
  worker_job_id = null,
  cause = 'group',
  revision = j.revision + 1,
  updated_at = max(:now, j.updated_at),
  finished_at = max(:now, j.updated_at),
  actor = :actor,
  note = json_object('reason', :reason, 'skipped_as', s.value ->> 'run_id')
from jsonb_each(:skipped) s
where j.id = s.value ->> 'id'
  and j.status = 'PENDING'
returning id;

-- name: unstarted [postgres]
-- The members that have not begun, in their order.
-- Differs: their entries are locked before the jobs, as a claim does; one that is just being claimed drops out.
select j.id
from cortex.queue_entry e
join cortex.job j on j.id = e.job_id
where j.group_id = cast(:id as uuid)
  and j.status = 'PENDING'
  and j.retry_of is null
order by j.id
for update of e;

-- name: unstarted [sqlite]
-- The members that have not begun, in their order.
-- Differs: there is nothing to lock.
select j.id
from cortex.job j
where j.group_id = :id
  and j.status = 'PENDING'
  and j.retry_of is null
order by j.id;
