-- name: add [postgres]
-- Adds a rule. No row means that there is one for the same already.
-- Differs: PostgreSQL wants to be told the types.
insert into cortex.retention_rule (id, tenant_id, job_type, status, keep_seconds, created_by, record)
values (cast(:id as uuid), cast(:tenant_id as uuid), cast(:job_type as text), cast(cast(:status as text) as cortex.job_status),
  cast(:keep_seconds as bigint), cast(:created_by as text), cast(:record as text))
on conflict do nothing
returning id;

-- name: add [sqlite]
-- Adds a rule. No row means that there is one for the same already.
-- Differs: PostgreSQL wants to be told the types.
insert into cortex.retention_rule (id, tenant_id, job_type, status, keep_seconds, created_by, record, created_at)
values (:id, :tenant_id, :job_type, :status, :keep_seconds, :created_by, :record, :now)
on conflict do nothing
returning id;

-- name: delete [postgres]
-- Deletes jobs that have ended, with their runs and history.
-- Differs: a function fixes the plans of the triggers too.
select cortex.delete_jobs(cast(:job_ids as uuid[])) as id;

-- name: delete [sqlite]
-- Deletes jobs that have ended, with their runs and history.
-- Differs: a list is json_each here.
delete from cortex.job
where id in (select value from json_each(:job_ids))
  and status in ('COMPLETED', 'FAILED', 'CANCELLED')
returning id;

-- name: delete_direct_reservation [postgres]
-- Deletes the oldest reservations that were over before then.
-- Differs: a function fixes the plan, so that a growing table cannot turn it into a scan.
select cortex.delete_direct_reservations(cast(:before_id as uuid), :ended_before, cast(:limit as int)) as id;

-- name: delete_direct_reservation [sqlite]
-- Deletes the oldest reservations that were over before then.
-- Differs: PostgreSQL needs a function to fix the plan.
delete from cortex.direct_reservation
where id in (
    select r.id from cortex.direct_reservation r
    where r.id < :before_id and r.ended_at < :ended_before
    order by r.id
    limit :limit)
returning id;

-- name: delete_execution_request [postgres]
-- Deletes the oldest requests whose runs ended before then.
-- Differs: a function fixes the plan, so that a growing table cannot turn it into a scan.
select cortex.delete_execution_requests(cast(:before_id as uuid), :ended_before, cast(:limit as int)) as id;

-- name: delete_execution_request [sqlite]
-- Deletes the oldest requests whose runs ended before then.
-- Differs: PostgreSQL needs a function to fix the plan.
delete from cortex.execution_request
where id in (
    select r.id from cortex.execution_request r
    where r.id < :before_id and r.finished_at < :ended_before
    order by r.id
    limit :limit)
returning id;

-- name: delete_groups [postgres]
-- Deletes groups that have finished and have no member left.
-- Differs: a list is jsonb_array_elements_text here.
delete from cortex.job_group g
where g.id in (select value::uuid from jsonb_array_elements_text(cast(:group_ids as jsonb)))
  and g.finished_at is not null
  and not exists (select 1 from cortex.job j where j.group_id = g.id);

-- name: delete_groups [sqlite]
-- Deletes groups that have finished and have no member left.
-- Differs: a list is json_each here.
delete from cortex.job_group
where id in (select value from json_each(:group_ids))
  and finished_at is not null
  and not exists (select 1 from cortex.job j where j.group_id = job_group.id);

-- name: delete_schedule_run [postgres]
-- Deletes the oldest slots that ended before then. The newest of each schedule stays: the next is counted from it.
-- Differs: a function fixes the plan, so that a growing table cannot turn it into a scan.
select cortex.delete_schedule_runs(:ended_before, cast(:limit as int)) as id;

-- name: delete_schedule_run [sqlite]
-- Deletes the oldest slots that ended before then. The newest of each schedule stays: the next is counted from it.
-- Differs: PostgreSQL needs a function to fix the plan.
delete from cortex.schedule_run
where id in (
    select r.id from cortex.schedule_run r
    where r.completed_at < :ended_before
      and exists (
        select 1 from cortex.schedule_run n
        where n.schedule_id = r.schedule_id and n.scheduled_for > r.scheduled_for)
    order by r.completed_at
    limit :limit)
returning id;

-- name: delete_worker [postgres]
-- Deletes the oldest workers that ended before then.
-- Differs: a function fixes the plan, so that a growing table cannot turn it into a scan.
select cortex.delete_workers(cast(:before_id as uuid), :ended_before, cast(:limit as int)) as id;

-- name: delete_worker [sqlite]
-- Deletes the oldest workers that ended before then.
-- Differs: PostgreSQL needs a function to fix the plan.
delete from cortex.worker
where id in (
    select r.id from cortex.worker r
    where r.id < :before_id and r.ended_at < :ended_before
    order by r.id
    limit :limit)
returning id;

-- name: held_back [postgres]
-- What stands in the way of deleting these jobs.
-- Differs: a function fixes the plan, so that a growing table cannot turn it into a scan.
select id, predecessor, needed, group_id
from cortex.held_back(cast(:job_ids as uuid[]))
order by id;

-- name: held_back [sqlite]
-- What stands in the way of deleting these jobs: that they are needed, or that the job which they retry is still there.
-- Differs: a list is json_each here.
with recursive chain (first_id, id, status) as (
  select j.id, j.id, j.status from json_each(:job_ids) w cross join cortex.job j on j.id = w.value
  union all
  select c.first_id, r.id, r.status from chain c cross join cortex.job r on r.retry_of = c.id
)
select j.id, p.id as predecessor, j.group_id,
  j.id in (select first_id from chain where status not in ('COMPLETED', 'FAILED', 'CANCELLED'))
  or exists (
    select 1 from cortex.job c
    where c.parent_id = j.id and c.status not in ('COMPLETED', 'FAILED', 'CANCELLED'))
  or exists (
    select 1 from cortex.job c
    where c.id = j.parent_id and c.status not in ('COMPLETED', 'FAILED', 'CANCELLED'))
  or exists (select 1 from cortex.job_group g where g.id = j.group_id and g.finished_at is null)
  or exists (
    select 1 from cortex.job m
    where m.group_id = j.group_id and m.status not in ('COMPLETED', 'FAILED', 'CANCELLED')) as needed
from json_each(:job_ids) w
cross join cortex.job j on j.id = w.value
left join cortex.job p on p.id = j.retry_of
order by j.id;

-- name: list
-- All rules, oldest first.
select r.id, r.tenant_id, t.name as tenant, r.job_type, r.status, r.keep_seconds, r.created_by, r.created_at, r.record
from cortex.retention_rule r
left join cortex.tenant t on t.id = r.tenant_id
order by r.created_at, r.id;

-- name: remove
-- Removes a rule. No row means that there is none.
delete from cortex.retention_rule
where id = :id
returning id;

-- name: window [postgres]
-- The next jobs after one of them, oldest first, with what decides how long they are kept.
-- Differs: a function fixes the plan, so that a growing table cannot turn it into a scan.
select id, tenant_id, job_type, status, created_at, finished_at, :now as looked_at
from cortex.jobs_after(cast(:after as uuid), cast(:limit as int))
order by id;

-- name: window [sqlite]
-- The next jobs after one of them, oldest first, with what decides how long they are kept.
-- Differs: PostgreSQL needs a function to fix the plan.
select j.id, j.tenant_id, j.job_type, j.status, j.created_at, j.finished_at, :now as looked_at
from cortex.job j
where j.id > :after
order by j.id
limit :limit;
