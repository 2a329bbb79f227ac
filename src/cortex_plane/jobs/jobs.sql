-- name: add_successor [postgres]
-- Makes a job of another one: its retry, its resumption or a fork. No row: the job has not ended, or has a successor already.
-- Differs: the procedure is a function here.
select id
from cortex.add_successor(:kind, :job_id, :new_id, :actor, :created_by, :parent_id, :checkpoint_id, :checkpoint) as id;

-- name: add_successor [sqlite]
-- Makes a job of another one: its retry, its resumption or a fork. No row: the job has not ended, or has a successor already.
-- Differs: the procedure is a view here, which returns whatever is put into it, so the conditions are asked before.
insert into cortex.successor_to_add (kind, job_id, id, actor, created_by, parent_id, checkpoint_id, checkpoint, at)
select :kind, j.id, :new_id, :actor, :created_by, :parent_id, :checkpoint_id, :checkpoint, max(:now, j.updated_at)
from cortex.job j
where j.id = :job_id
  and (:kind = 'fork' or j.status in ('COMPLETED', 'FAILED', 'CANCELLED'))
  and (:kind = 'fork' or not exists (
    select 1 from cortex.execution_request r join cortex.execution_grant g on g.id = r.grant_id
    where r.id = j.request_id and g.revoked_at is not null))
  and not exists (select 1 from cortex.job s where s.id = :new_id)
  and not exists (select 1 from cortex.job s where s.retry_of = :job_id and :kind <> 'fork')
returning id;

-- name: adopt
-- A child that has not ended goes over to the job that continues its parent.
update cortex.job
set parent_id = :parent_id
where id = :child_id
  and finished_at is null
  and parent_id is distinct from :parent_id;

-- name: cancel [postgres]
-- Cancels a job that has not ended, at the revision that was seen; one to be replaced, before its first run. No row: neither.
-- Differs: the queue entry is locked first, as a claim does, or the two would deadlock.
with entry as materialized (
  select 1 from cortex.queue_entry where job_id = cast(:id as uuid) for update
)
update cortex.job
set status = 'CANCELLED',
  run_id = null,
  worker_id = null,
  next_retry_at = null,
  wait_reason = null,
  approval_token = null,
  approval_expires_at = null,
  worker_job_id = null,
  cause = cast(:cause as text),
  revision = revision + 1,
  updated_at = greatest(:now, updated_at),
  finished_at = greatest(:now, updated_at),
  actor = cast(:actor as text),
  note = cast(:note as jsonb)
where id = cast(:id as uuid)
  and status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
  and (cleanup_seconds is null or status = 'PENDING' or cast(:kill as boolean))
  and (cast(:cause as text) <> 'replace' or status = 'PENDING')
  and revision = coalesce(cast(:revision as bigint), revision)
  and (select count(*) from entry) >= 0
returning id;

-- name: cancel [sqlite]
-- Cancels a job that has not ended, at the revision that was seen; one to be replaced, before its first run. No row: neither.
-- Differs: with one writer there is nothing to lock.
update cortex.job
set status = 'CANCELLED',
  run_id = null,
  worker_id = null,
  next_retry_at = null,
  wait_reason = null,
  approval_token = null,
  approval_expires_at = null,
  worker_job_id = null,
  cause = :cause,
  revision = revision + 1,
  updated_at = max(:now, updated_at),
  finished_at = max(:now, updated_at),
  actor = :actor,
  note = :note
where id = :id
  and status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
  and (cleanup_seconds is null or status = 'PENDING' or :kill)
  and (:cause <> 'replace' or status = 'PENDING')
  and revision = coalesce(:revision, revision)
returning id;

-- name: cancel_many [postgres]
-- Cancels those of the jobs that have not ended.
-- Differs: the queue entries are locked first, then the jobs in their order, or this would deadlock with claims and batches.
with wanted as materialized (
  select cast(value as uuid) as id from jsonb_array_elements_text(cast(:ids as jsonb))
), entry as materialized (
  select 1 from cortex.queue_entry
  where job_id in (select id from wanted)
  order by job_id
  for update
), live as materialized (
  select id from cortex.job
  where id in (select id from wanted)
    and (select count(*) from entry) >= 0
  order by id
  for update
)
update cortex.job j
set status = 'CANCELLED',
  run_id = null,
  worker_id = null,
  next_retry_at = null,
  wait_reason = null,
  approval_token = null,
  approval_expires_at = null,
  worker_job_id = null,
  cause = cast(:cause as text),
  revision = j.revision + 1,
  updated_at = greatest(:now, j.updated_at),
  finished_at = greatest(:now, j.updated_at),
  actor = cast(:actor as text),
  note = cast(:note as jsonb)
from live l
where j.id = l.id
  and j.status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
  and (j.cleanup_seconds is null or j.status = 'PENDING' or cast(:kill as boolean))
returning j.id;

-- name: cancel_many [sqlite]
-- Cancels those of the jobs that have not ended.
-- Differs: with one writer there is nothing to lock.
update cortex.job
set status = 'CANCELLED',
  run_id = null,
  worker_id = null,
  next_retry_at = null,
  wait_reason = null,
  approval_token = null,
  approval_expires_at = null,
  worker_job_id = null,
  cause = :cause,
  revision = revision + 1,
  updated_at = max(:now, updated_at),
  finished_at = max(:now, updated_at),
  actor = :actor,
  note = :note
where id in (select value from json_each(:ids))
  and status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
  and (cleanup_seconds is null or status = 'PENDING' or :kill)
returning id;

-- name: chain
-- The retry chain that a job belongs to, from the first job to the last.
with recursive back (id, retry_of, place) as (
  select j.id, j.retry_of, 0 from cortex.job j where j.id = :id
  union all
  select j.id, j.retry_of, b.place - 1 from back b join cortex.job j on j.id = b.retry_of
), chain (id, place) as (
  select id, place from back
  union all
  select r.id, c.place + 1 from chain c join cortex.job r on r.retry_of = c.id where c.place >= 0
)
select j.id, j.job_type, j.queue, j.status, j.priority, j.attempt, j.failed_runs, j.retry_count, j.max_retries, j.next_retry_at,
  j.wait_reason, j.note ->> 'child' as child_id, j.cancel_requested_at, j.error_message, j.created_at, j.updated_at,
  j.finished_at
from chain c
join cortex.job j on j.id = c.id
order by c.place;

-- name: chain_end
-- The last job of the retry chain that a job belongs to.
with recursive chain (id, place) as (
  select j.id, 0 from cortex.job j where j.id = :id
  union all
  select r.id, c.place + 1 from chain c join cortex.job r on r.retry_of = c.id
)
select j.id, j.status
from chain c
join cortex.job j on j.id = c.id
order by c.place desc
limit 1;

-- name: repeats
-- One row if a job, or one that called it, takes the place of another with the ids of its tool calls; otherwise none.
with recursive line (id, parent_id, repeats) as (
  select j.id, j.parent_id, j.retry_of is not null and j.effect_root is not null from cortex.job j where j.id = :id
  union all
  select p.id, p.parent_id, p.retry_of is not null and p.effect_root is not null
  from line l
  join cortex.job p on p.id = l.parent_id
)
select 1 as repeats
from line
where repeats
limit 1;

-- name: end_overdue [postgres]
-- Ends jobs whose deadline has passed, at most :limit, and returns how many.
-- Differs: a function locks the queue entries first, then the jobs, and leaves what others hold.
select cortex.end_overdue(cast(:limit as int)) as ended;

-- name: end_overdue [sqlite]
-- Ends jobs whose deadline has passed, at most :limit, and returns one row for each. One that never ran is CANCELLED, any other FAILED.
-- Differs: with one writer there is nothing to lock.
update cortex.job
set status = iif(status = 'PENDING' or cancel_request ->> 'kind' is 'cancel', 'CANCELLED', 'FAILED'),
  error = iif(status = 'PENDING' or cancel_request ->> 'kind' is 'cancel', error, json_object('type', 'DeadlineExceeded', 'message',
    'The job did not end before its deadline, ' || strftime('%Y-%m-%dT%H:%M:%S', deadline_at / 1000000, 'unixepoch')
    || iif(deadline_at % 1000000, printf('.%06d', deadline_at % 1000000), '') || '+00:00.')),
  error_message = iif(status = 'PENDING' or cancel_request ->> 'kind' is 'cancel', null,
    'The job did not end before its deadline, ' || strftime('%Y-%m-%dT%H:%M:%S', deadline_at / 1000000, 'unixepoch')
    || iif(deadline_at % 1000000, printf('.%06d', deadline_at % 1000000), '') || '+00:00.'),
  run_id = null,
  worker_id = null,
  next_retry_at = null,
  wait_reason = null,
  approval_token = null,
  approval_expires_at = null,
  worker_job_id = null,
  cause = iif(cancel_requested_at is null, 'deadline_exceeded', 'cleanup_timed_out'),
  revision = revision + 1,
  updated_at = max(:now, updated_at),
  finished_at = max(:now, updated_at),
  actor = null,
  note = iif(cancel_requested_at is not null, cancel_request, json_object('reason', 'its deadline was ' || strftime('%Y-%m-%dT%H:%M:%S', deadline_at / 1000000, 'unixepoch')
    || iif(deadline_at % 1000000, printf('.%06d', deadline_at % 1000000), '') || '+00:00'))
where id in (select d.job_id from cortex.job_deadline d where d.at <= :now order by d.at limit :limit)
  and finished_at is null
  and (cleanup_seconds is null or cancel_requested_at is not null or status = 'PENDING')
returning 1 as ended;

-- name: find
-- The ids that begin with a prefix, so that people need not type a whole one.
-- With a tenant, only its own among the newest :looked_at that begin so: others' count for nothing, and no search is long.
select id
from (
  select id, tenant_id
  from cortex.job
  where id between :low and :high
  order by id desc
  limit :looked_at
) as newest
where cast(:tenant_id as text) is null or cast(tenant_id as text) = cast(:tenant_id as text)
order by id
limit 5;

-- name: free [postgres]
-- Those of the jobs whose rows nobody else has locked at this moment.
-- Differs: SQLite has one writer.
select id from cortex.job
where id = any (cast(:ids as uuid[]))
for no key update skip locked;

-- name: free [sqlite]
-- Those of the jobs whose rows nobody else has locked at this moment: all.
-- Differs: PostgreSQL has many writers.
select value as id from json_each(:ids);

-- name: get
-- One job as it stands, with the id of its retry if it has one.
select j.id, j.tenant_id, j.agent_id, j.job_type, j.queue, j.status, j.priority, j.position, j.payload, j.output,
  b.content as output_content, j.error, j.error_message, j.retry_count, j.max_retries, j.attempt, j.crash_count, j.failed_runs,
  j.next_retry_at, j.run_at, j.deadline_at, j.timeout_seconds, j.retry_policy, j.approval_expires_at, j.wait_reason, j.note ->> 'child' as child_id, j.cancel_requested_at, j.run_id,
  j.worker_id, j.worker_job_id, j.job_key, j.serial_key, j.retry_of, j.parent_id, j.group_id, j.template_id,
  j.schedule_id, j.request_id, j.session_id, j.trace_id, j.checkpoint_id, j.created_by, j.submitters, j.cost_cents, j.tags, j.revision, j.created_at, j.queued_at, j.started_at, j.updated_at, j.finished_at,
  (select r.id from cortex.job r where r.retry_of = j.id) as retried_as
from cortex.job j
left join cortex.job_blob b on b.job_id = j.id and b.sha256 = j.output_blob
where j.id = :id;

-- name: history
-- Every transition of one job, in order.
select job_id, revision, previous_status, new_status, cause, actor, run_id, metadata, created_at
from cortex.job_history
where job_id = :id
order by revision;

-- name: list
-- The newest jobs before :before, whatever their state.
select j.id, j.job_type, j.queue, j.status, j.priority, j.attempt, j.failed_runs, j.retry_count, j.max_retries, j.next_retry_at,
  j.wait_reason, j.note ->> 'child' as child_id, j.cancel_requested_at, j.error_message, j.created_at, j.updated_at,
  j.finished_at
from cortex.job j
where j.id < :before
  and (cast(:queue as text) is null or j.queue = cast(:queue as text))
  and (cast(:status as text) is null or cast(j.status as text) = cast(:status as text))
order by j.id desc
limit :limit;

-- name: list_asking
-- The newest jobs before :before that wait for an approval.
select j.id, j.job_type, j.queue, j.status, j.priority, j.attempt, j.failed_runs, j.retry_count, j.max_retries, j.next_retry_at,
  j.wait_reason, j.note ->> 'child' as child_id, j.cancel_requested_at, j.error_message, j.created_at, j.updated_at,
  j.finished_at
from (
  select distinct job_id
  from cortex.approval_request
  where outcome is null
    and job_id < :before) a
join cortex.job j on j.id = a.job_id
where j.status = 'WAITING_FOR_APPROVAL'
  and (cast(:queue as text) is null or j.queue = cast(:queue as text))
  and (cast(:agent_id as text) is null or cast(j.agent_id as text) = cast(:agent_id as text))
order by j.id desc
limit :limit;

-- name: list_cancelled [postgres]
-- The newest jobs before :before that ended CANCELLED, found through their last line of history.
-- Differs: the fence (offset 0) keeps the join a look-up by index, so that a page never reads all jobs.
select j.id, j.job_type, j.queue, j.status, j.priority, j.attempt, j.failed_runs, j.retry_count, j.max_retries, j.next_retry_at,
  j.wait_reason, j.note ->> 'child' as child_id, j.cancel_requested_at, j.error_message, j.created_at, j.updated_at,
  j.finished_at
from cortex.job_history h
cross join lateral (select * from cortex.job where id = h.job_id offset 0) j
where h.new_status = 'CANCELLED'
  and h.job_id < :before
  and (cast(:queue as text) is null or j.queue = cast(:queue as text))
  and (cast(:agent_id as text) is null or cast(j.agent_id as text) = cast(:agent_id as text))
order by h.job_id desc
limit :limit;

-- name: list_cancelled [sqlite]
-- The newest jobs before :before that ended CANCELLED, found through their last line of history.
-- Differs: here the join needs no fence.
select j.id, j.job_type, j.queue, j.status, j.priority, j.attempt, j.failed_runs, j.retry_count, j.max_retries, j.next_retry_at,
  j.wait_reason, j.note ->> 'child' as child_id, j.cancel_requested_at, j.error_message, j.created_at, j.updated_at,
  j.finished_at
from cortex.job_history h
join cortex.job j on j.id = h.job_id
where h.new_status = 'CANCELLED'
  and h.job_id < :before
  and (cast(:queue as text) is null or j.queue = cast(:queue as text))
  and (cast(:agent_id as text) is null or cast(j.agent_id as text) = cast(:agent_id as text))
order by h.job_id desc
limit :limit;

-- name: list_completed
-- The newest jobs before :before that ended COMPLETED, as most do: the newest of all are looked through.
select j.id, j.job_type, j.queue, j.status, j.priority, j.attempt, j.failed_runs, j.retry_count, j.max_retries, j.next_retry_at,
  j.wait_reason, j.note ->> 'child' as child_id, j.cancel_requested_at, j.error_message, j.created_at, j.updated_at,
  j.finished_at
from cortex.job j
where j.id < :before
  and (cast(:queue as text) is null or j.queue = cast(:queue as text))
  and j.status = 'COMPLETED'
order by j.id desc
limit :limit;

-- name: list_failed [postgres]
-- The newest jobs before :before that ended FAILED, found through their last line of history.
-- Differs: the fence (offset 0) keeps the join a look-up by index, so that a page never reads all jobs.
select j.id, j.job_type, j.queue, j.status, j.priority, j.attempt, j.failed_runs, j.retry_count, j.max_retries, j.next_retry_at,
  j.wait_reason, j.note ->> 'child' as child_id, j.cancel_requested_at, j.error_message, j.created_at, j.updated_at,
  j.finished_at
from cortex.job_history h
cross join lateral (select * from cortex.job where id = h.job_id offset 0) j
where h.new_status = 'FAILED'
  and h.job_id < :before
  and (cast(:queue as text) is null or j.queue = cast(:queue as text))
  and (cast(:agent_id as text) is null or cast(j.agent_id as text) = cast(:agent_id as text))
order by h.job_id desc
limit :limit;

-- name: list_failed [sqlite]
-- The newest jobs before :before that ended FAILED, found through their last line of history.
-- Differs: here the join needs no fence.
select j.id, j.job_type, j.queue, j.status, j.priority, j.attempt, j.failed_runs, j.retry_count, j.max_retries, j.next_retry_at,
  j.wait_reason, j.note ->> 'child' as child_id, j.cancel_requested_at, j.error_message, j.created_at, j.updated_at,
  j.finished_at
from cortex.job_history h
join cortex.job j on j.id = h.job_id
where h.new_status = 'FAILED'
  and h.job_id < :before
  and (cast(:queue as text) is null or j.queue = cast(:queue as text))
  and (cast(:agent_id as text) is null or cast(j.agent_id as text) = cast(:agent_id as text))
order by h.job_id desc
limit :limit;

-- name: list_of_agent [postgres]
-- The newest jobs of one agent before :before.
-- Differs: with an equality, the planner may read all of the newest by the primary key and leave out most of them.
select j.id, j.job_type, j.queue, j.status, j.priority, j.attempt, j.failed_runs, j.retry_count, j.max_retries, j.next_retry_at,
  j.wait_reason, j.note ->> 'child' as child_id, j.cancel_requested_at, j.error_message, j.created_at, j.updated_at,
  j.finished_at
from cortex.job j
where j.agent_id >= :agent_id
  and (j.agent_id, j.id) < (:agent_id, :before)
  and (cast(:queue as text) is null or j.queue = cast(:queue as text))
  and (cast(:status as text) is null or cast(j.status as text) = cast(:status as text))
order by j.agent_id desc, j.id desc
limit :limit;

-- name: list_of_agent [sqlite]
-- The newest jobs of one agent before :before.
-- Differs: an equality is always answered from the index that has it.
select j.id, j.job_type, j.queue, j.status, j.priority, j.attempt, j.failed_runs, j.retry_count, j.max_retries, j.next_retry_at,
  j.wait_reason, j.note ->> 'child' as child_id, j.cancel_requested_at, j.error_message, j.created_at, j.updated_at,
  j.finished_at
from cortex.job j
where j.agent_id = :agent_id
  and j.id < :before
  and (cast(:queue as text) is null or j.queue = cast(:queue as text))
  and (cast(:status as text) is null or cast(j.status as text) = cast(:status as text))
order by j.id desc
limit :limit;

-- name: list_of_queue [postgres]
-- The newest jobs of one queue before :before.
-- Differs: with an equality, the planner may read all of the newest by the primary key and leave out most of them.
select j.id, j.job_type, j.queue, j.status, j.priority, j.attempt, j.failed_runs, j.retry_count, j.max_retries, j.next_retry_at,
  j.wait_reason, j.note ->> 'child' as child_id, j.cancel_requested_at, j.error_message, j.created_at, j.updated_at,
  j.finished_at
from cortex.job j
where j.queue >= :queue
  and (j.queue, j.id) < (:queue, :before)
  and (cast(:status as text) is null or cast(j.status as text) = cast(:status as text))
order by j.queue desc, j.id desc
limit :limit;

-- name: list_of_queue [sqlite]
-- The newest jobs of one queue before :before.
-- Differs: an equality is always answered from the index that has it.
select j.id, j.job_type, j.queue, j.status, j.priority, j.attempt, j.failed_runs, j.retry_count, j.max_retries, j.next_retry_at,
  j.wait_reason, j.note ->> 'child' as child_id, j.cancel_requested_at, j.error_message, j.created_at, j.updated_at,
  j.finished_at
from cortex.job j
where j.queue = :queue
  and j.id < :before
  and (cast(:status as text) is null or cast(j.status as text) = cast(:status as text))
order by j.id desc
limit :limit;

-- name: list_running
-- The newest jobs before :before that have an open run.
select j.id, j.job_type, j.queue, j.status, j.priority, j.attempt, j.failed_runs, j.retry_count, j.max_retries, j.next_retry_at,
  j.wait_reason, j.note ->> 'child' as child_id, j.cancel_requested_at, j.error_message, j.created_at, j.updated_at,
  j.finished_at
from cortex.open_run r
join cortex.job j on j.id = r.job_id
where r.job_id < :before
  and (cast(:queue as text) is null or j.queue = cast(:queue as text))
  and (cast(:agent_id as text) is null or cast(j.agent_id as text) = cast(:agent_id as text))
order by r.job_id desc
limit :limit;

-- name: list_waiting
-- The newest jobs before :before that wait in the queue, in one of the states PENDING and RETRY.
select j.id, j.job_type, j.queue, j.status, j.priority, j.attempt, j.failed_runs, j.retry_count, j.max_retries, j.next_retry_at,
  j.wait_reason, j.note ->> 'child' as child_id, j.cancel_requested_at, j.error_message, j.created_at, j.updated_at,
  j.finished_at
from cortex.queue_entry e
join cortex.job j on j.id = e.job_id
where e.job_id < :before
  and (cast(:queue as text) is null or e.queue = cast(:queue as text))
  and (cast(:agent_id as text) is null or cast(j.agent_id as text) = cast(:agent_id as text))
  and cast(j.status as text) = cast(:status as text)
order by e.job_id desc
limit :limit;

-- name: live_children
-- The children of a job that end with it, and have not ended.
select id from cortex.job
where parent_id = :parent_id
  and cancel_with_parent
  and status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL');

-- name: live_parent [postgres]
-- The parent, if it goes on or completed. One that is just ending is waited for.
-- Differs: its row is locked, so that it stays as it was seen.
select id from cortex.job
where id = cast(:parent_id as uuid)
  and status not in ('FAILED', 'CANCELLED')
for share;

-- name: live_parent [sqlite]
-- The parent, if it goes on or completed.
-- Differs: with one writer there is nothing to lock.
select id from cortex.job
where id = :parent_id
  and status not in ('FAILED', 'CANCELLED');

-- name: mended_up_to
-- The next look for jobs that need mending begins after this one.
update cortex.job_reconciler set after = :last where id = 1;

-- name: next_deadline [postgres]
-- In how many seconds the next deadline of a job passes; no row when none has one.
-- Differs: how instants are subtracted.
select extract(epoch from at - cortex.now())::double precision as seconds
from cortex.job_deadline
order by at
limit 1;

-- name: next_deadline [sqlite]
-- In how many seconds the next deadline of a job passes; no row when none has one.
-- Differs: how instants are subtracted.
select (at - :now) / 1000000.0 as seconds
from cortex.job_deadline
order by at
limit 1;

-- name: next_page
-- The last of the next page of jobs, by id; no row when there is none.
select id from (
  select id from cortex.job
  where id > :after
  order by id
  limit :limit) page
order by id desc
limit 1;

-- name: overdue_in_cleanup [postgres]
-- Jobs past their deadline that have an open cleanup scope, and were not asked to end yet.
-- Differs: the fence (offset 0) keeps the join a look-up by index.
select j.id
from (
  select d.job_id from cortex.job_deadline d where d.at <= :now order by d.at limit :limit
) due
cross join lateral (
  select id, cleanup_seconds, cancel_requested_at, status from cortex.job where id = due.job_id offset 0
) j
where j.cleanup_seconds is not null
  and j.cancel_requested_at is null
  and j.status in ('RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL');

-- name: overdue_in_cleanup [sqlite]
-- Jobs past their deadline that have an open cleanup scope, and were not asked to end yet.
-- Differs: here the join needs no fence.
select j.id
from (
  select d.job_id from cortex.job_deadline d where d.at <= :now order by d.at limit :limit
) due
cross join cortex.job j on j.id = due.job_id
where j.cleanup_seconds is not null
  and j.cancel_requested_at is null
  and j.status in ('RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL');

-- name: request_cancel [postgres]
-- Asks those of the jobs that have an open cleanup scope to end; they are called once more to clean up. The first request is kept.
-- Differs: the queue entries are locked first, then the jobs in their order, or this would deadlock with claims and batches.
with wanted as materialized (
  select cast(value as uuid) as id from jsonb_array_elements_text(cast(:ids as jsonb))
), entry as materialized (
  select 1 from cortex.queue_entry
  where job_id in (select id from wanted)
  order by job_id
  for update
), live as materialized (
  select id from cortex.job
  where id in (select id from wanted)
    and (select count(*) from entry) >= 0
  order by id
  for update
)
update cortex.job j
set cancel_requested_at = coalesce(j.cancel_requested_at, :now),
  cancel_request = coalesce(j.cancel_request, cast(:request as json)),
  status = case when j.status = 'WAITING_FOR_APPROVAL' then 'RUNNING' else j.status end,
  run_id = case when j.status = 'WAITING_FOR_APPROVAL' then cortex.uuid7() else j.run_id end,
  worker_job_id = case when j.status = 'WAITING_FOR_APPROVAL' then nextval('cortex.queue_entry_id') else j.worker_job_id end,
  attempt = j.attempt + case when j.status = 'WAITING_FOR_APPROVAL' then 1 else 0 end,
  revision = j.revision + case when j.status = 'WAITING_FOR_APPROVAL' then 1 else 0 end,
  cause = case when j.status = 'WAITING_FOR_APPROVAL' then 'cancel_requested' else j.cause end,
  actor = case when j.status = 'WAITING_FOR_APPROVAL' then cast(:actor as text) else j.actor end,
  note = case when j.status = 'WAITING_FOR_APPROVAL' then cast(:note as jsonb) else j.note end,
  approval_token = null,
  approval_expires_at = null,
  next_retry_at = case when j.status = 'RETRY' then least(j.next_retry_at, :now) end,
  updated_at = greatest(:now, j.updated_at)
from live l
where j.id = l.id
  and j.status in ('RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
  and j.cleanup_seconds is not null
  and j.revision = coalesce(cast(:revision as bigint), j.revision)
returning j.id;

-- name: request_cancel [sqlite]
-- Asks those of the jobs that have an open cleanup scope to end; they are called once more to clean up. The first request is kept.
-- Differs: with one writer there is nothing to lock, and ids are made of random bytes.
update cortex.job
set cancel_requested_at = coalesce(cancel_requested_at, :now),
  cancel_request = coalesce(cancel_request, :request),
  status = iif(status = 'WAITING_FOR_APPROVAL', 'RUNNING', status),
  run_id = iif(status = 'WAITING_FOR_APPROVAL',
    printf('%08x-%04x-7%s-8%s-%s', (:now / 1000) >> 16, (:now / 1000) & 65535, substr(lower(hex(randomblob(2))), 2),
      substr(lower(hex(randomblob(2))), 2), lower(hex(randomblob(6)))),
    run_id),
  attempt = attempt + (status = 'WAITING_FOR_APPROVAL'),
  revision = revision + (status = 'WAITING_FOR_APPROVAL'),
  cause = iif(status = 'WAITING_FOR_APPROVAL', 'cancel_requested', cause),
  actor = iif(status = 'WAITING_FOR_APPROVAL', :actor, actor),
  note = iif(status = 'WAITING_FOR_APPROVAL', :note, note),
  approval_token = null,
  approval_expires_at = null,
  next_retry_at = iif(status = 'RETRY', min(next_retry_at, :now), null),
  updated_at = max(:now, updated_at)
where id in (select value from json_each(:ids))
  and status in ('RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
  and cleanup_seconds is not null
  and revision = coalesce(:revision, revision)
returning id;

-- name: runs
-- Every run of one job, in order.
select id, job_id, attempt, worker_id, status, started_at, finished_at, exit_code, error, error_details, artifacts, log_path, params_snapshot
from cortex.job_run
where job_id = :id
order by attempt, started_at;

-- name: set_cleanup
-- Notes that a run has an open cleanup scope, or none any more. No row: the run is no longer the job's.
update cortex.job
set cleanup_seconds = :seconds
where id = :id
  and run_id = :run_id
returning id;

-- name: status
-- How one job stands: what a caller who waits for its result asks, again and again.
select j.status, j.output, b.content as output_content, j.error, j.error_message
from cortex.job j
left join cortex.job_blob b on b.job_id = j.id and b.sha256 = j.output_blob
where j.id = :id;

-- name: submit [postgres]
-- Submits a batch of jobs. Sent twice, it changes nothing: the ids are the caller's.
-- Differs: a batch is a jsonb record set here, and positions come from a sequence.
insert into cortex.job (
  id, tenant_id, agent_id, job_type, queue, payload, priority, max_retries, retry_policy, run_at, timeout_seconds,
  deadline_at, deadline_seconds, job_key,
  serial_key, tags, created_by, submitters, template_id, group_id, schedule_id, request_id, trace_id, parent_id, session_id,
  cancel_with_parent, effect_root, cause, actor)
select id, tenant_id, agent_id, job_type, queue, payload, priority, max_retries, retry_policy,
  coalesce(cortex.instant(run_at), cortex.now() + delay_seconds * interval '1 second'),
  timeout_seconds, cortex.instant(deadline_at), deadline_seconds, job_key, serial_key, tags,
  case when j.parent_id is null then created_by
    else coalesce(j.created_by, (select p.created_by from cortex.job p where p.id = j.parent_id)) end,
  case when j.parent_id is null then submitters else (
    select jsonb_agg(distinct b.signature)
    from (
      select p.created_by as signature from cortex.job p where p.id = j.parent_id
      union all
      select e.value from cortex.job p, jsonb_array_elements_text(p.submitters) e where p.id = j.parent_id
      union all
      select 'session:' || p.session_id from cortex.job p where p.id = j.parent_id and p.session_id <> j.session_id) b
    where b.signature is not null) end,
  template_id, group_id,
  case when j.parent_id is null then schedule_id
    else coalesce(j.schedule_id, (select p.schedule_id from cortex.job p where p.id = j.parent_id)) end,
  case when j.parent_id is null then request_id
    else coalesce(j.request_id, (select p.request_id from cortex.job p where p.id = j.parent_id)) end,
  case when j.parent_id is null then trace_id
    else coalesce(j.trace_id, (select p.trace_id from cortex.job p where p.id = j.parent_id)) end,
  parent_id,
  case when j.parent_id is null then session_id
    else coalesce(j.session_id, (select p.session_id from cortex.job p where p.id = j.parent_id)) end,
  coalesce(cancel_with_parent, false), effect_root, 'submit', created_by
from jsonb_to_recordset(cast(:jobs as jsonb)) as j(
  id uuid, tenant_id uuid, agent_id uuid, job_type text, queue text, payload jsonb, priority int, max_retries int,
  retry_policy jsonb, run_at bigint, delay_seconds double precision, timeout_seconds double precision,
  deadline_at bigint, deadline_seconds double precision, job_key text,
  serial_key text, tags jsonb, created_by text, submitters jsonb, template_id uuid, group_id uuid, schedule_id uuid,
  request_id uuid, trace_id text, parent_id uuid, session_id uuid,
  cancel_with_parent boolean, effect_root uuid)
on conflict (id) do nothing;

-- name: submit [sqlite]
-- Submits a batch of jobs. Sent twice, it changes nothing: the ids are the caller's.
-- Differs: a batch is jsonb_each here, and positions come from the counter table.
insert into cortex.job (
  id, tenant_id, agent_id, job_type, queue, payload, priority, position, max_retries, retry_policy, run_at, timeout_seconds,
  deadline_at, deadline_seconds,
  job_key, serial_key, tags, created_by, submitters, template_id, group_id, schedule_id, request_id, trace_id, parent_id, session_id,
  cancel_with_parent, effect_root, worker_job_id, cause, actor, created_at, queued_at, updated_at)
select value ->> 'id', value ->> 'tenant_id', value ->> 'agent_id', value ->> 'job_type', value ->> 'queue',
  value -> 'payload', value ->> 'priority',
  (select c.value from cortex.counter c where name = 'position') + 100 * (key + 1),
  value ->> 'max_retries', nullif(value -> 'retry_policy', 'null'),
  coalesce(value ->> 'run_at', :now + cast(round(1000000 * (value ->> 'delay_seconds')) as integer)),
  value ->> 'timeout_seconds', value ->> 'deadline_at', value ->> 'deadline_seconds', value ->> 'job_key', value ->> 'serial_key', value -> 'tags',
  coalesce(value ->> 'created_by', (select p.created_by from cortex.job p where p.id = value ->> 'parent_id')),
  iif(n.value ->> 'parent_id' is null, n.value -> 'submitters', (
    select nullif(json_group_array(distinct b.signature), '[]')
    from (
      select p.created_by as signature from cortex.job p where p.id = n.value ->> 'parent_id'
      union all
      select e.value from cortex.job p, json_each(p.submitters) e where p.id = n.value ->> 'parent_id'
      union all
      select 'session:' || p.session_id from cortex.job p
      where p.id = n.value ->> 'parent_id' and p.session_id <> n.value ->> 'session_id') b
    where b.signature is not null)),
  value ->> 'template_id', value ->> 'group_id',
  iif(value ->> 'parent_id' is null, value ->> 'schedule_id',
    coalesce(value ->> 'schedule_id', (select p.schedule_id from cortex.job p where p.id = value ->> 'parent_id'))),
  iif(value ->> 'parent_id' is null, value ->> 'request_id',
    coalesce(value ->> 'request_id', (select p.request_id from cortex.job p where p.id = value ->> 'parent_id'))),
  iif(value ->> 'parent_id' is null, value ->> 'trace_id',
    coalesce(value ->> 'trace_id', (select p.trace_id from cortex.job p where p.id = value ->> 'parent_id'))),
  value ->> 'parent_id',
  coalesce(value ->> 'session_id', (select p.session_id from cortex.job p where p.id = value ->> 'parent_id')),
  coalesce(value ->> 'cancel_with_parent', 0), value ->> 'effect_root',
  (select c.value from cortex.counter c where name = 'queue_entry') + key + 1,
  'submit', value ->> 'created_by', :now, :now, :now
from jsonb_each(:jobs) n
where not exists (select 1 from cortex.job j where j.id = value ->> 'id');

-- name: take_turn_to_mend [postgres]
-- One of many looks for jobs that need mending; no row means that somebody did so a moment ago. Says where that one stopped.
-- Differs: an interval is written otherwise here.
update cortex.job_reconciler
set reconciled_at = :now
where id = 1 and reconciled_at <= :now - cast(:rest_seconds as double precision) * interval '1 second'
returning after;

-- name: take_turn_to_mend [sqlite]
-- One of many looks for jobs that need mending; no row means that somebody did so a moment ago. Says where that one stopped.
-- Differs: an interval is written otherwise here.
update cortex.job_reconciler
set reconciled_at = :now
where id = 1 and reconciled_at <= :now - cast(round(1000000 * :rest_seconds) as integer)
returning after;
