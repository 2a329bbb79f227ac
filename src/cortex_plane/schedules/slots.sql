-- name: add [postgres]
-- Writes slots down; one that is there already stays as it is. Those that are running have just begun.
-- Differs: a batch is a jsonb record set here, and instants are converted.
insert into cortex.schedule_run
  (id, schedule_id, scheduled_for, local_time, timezone, origin, status, reason, job_id, trace_id, begin_by, requested_by, started_at, completed_at)
select id, schedule_id, cortex.instant(scheduled_for), local_time, timezone, origin, status, reason, job_id, trace_id,
  cortex.instant(begin_by), requested_by,
  case when status = 'running' then :now end, case when status = 'skipped' then :now end
from jsonb_to_recordset(cast(:slots as jsonb)) as r(
  id uuid, schedule_id uuid, scheduled_for bigint, local_time text, timezone text, origin text, status text, reason text,
  job_id uuid, trace_id text, begin_by bigint, requested_by text)
on conflict do nothing
returning id;

-- name: add [sqlite]
-- Writes slots down; one that is there already stays as it is. Those that are running have just begun.
-- Differs: a batch is jsonb_each here.
insert into cortex.schedule_run
  (id, schedule_id, scheduled_for, local_time, timezone, origin, status, reason, job_id, trace_id, begin_by, requested_by, started_at, completed_at,
   created_at)
select value ->> 'id', value ->> 'schedule_id', value ->> 'scheduled_for', value ->> 'local_time', value ->> 'timezone', value ->> 'origin',
  value ->> 'status', value ->> 'reason', value ->> 'job_id', value ->> 'trace_id', value ->> 'begin_by', value ->> 'requested_by',
  iif(value ->> 'status' = 'running', :now, null), iif(value ->> 'status' = 'skipped', :now, null), :now
from jsonb_each(:slots)
where true
on conflict do nothing
returning id;

-- name: ask_again
-- A slot that was left out is wanted after all. No row means that it was not left out.
update cortex.schedule_run
set status = 'pending', reason = null, completed_at = null, origin = 'backfill', begin_by = null, job_id = :job_id, requested_by = :requested_by
where id = :id and status = 'skipped'
returning id;

-- name: end
-- A slot ends. No row means that it had.
update cortex.schedule_run
set status = :status, error_code = :error_code, error_message = :error_message, replaced_by = :replaced_by,
  completed_at = :now
where id = :id and (status = 'pending' or status = 'running')
returning id;

-- name: get
-- One slot as it stands.
select r.id, r.schedule_id, r.scheduled_for, r.local_time, r.origin, r.status, r.reason, r.error_code, r.error_message, r.run_id, r.trace_id,
  r.job_id, r.replaced_by, r.requested_by, r.started_at, r.completed_at, r.created_at, r.timezone, r.begin_by
from cortex.schedule_run r
where r.id = :id;

-- name: give_job
-- Another job looks after a slot that has not ended.
update cortex.schedule_run
set job_id = :job_id
where id = :id and (status = 'pending' or status = 'running');

-- name: last_begun
-- The last slot of a schedule's own rule that was begun or left out.
select r.id, r.schedule_id, r.scheduled_for, r.local_time, r.origin, r.status, r.reason, r.error_code, r.error_message, r.run_id, r.trace_id,
  r.job_id, r.replaced_by, r.requested_by, r.started_at, r.completed_at, r.created_at, r.timezone, r.begin_by
from cortex.schedule_run r
where r.schedule_id = :schedule_id and r.origin = 'cron'
order by r.scheduled_for desc
limit 1;

-- name: leave
-- The slots of a schedule that was removed end, unless a run was started for them: that goes on, and its slot with it.
update cortex.schedule_run
set status = case when status = 'pending' then 'skipped' else 'error' end,
  reason = case when status = 'pending' then 'removed' end,
  error_code = case when status = 'running' then 'schedule_removed' end,
  error_message = case when status = 'running' then 'The schedule was removed before a run was started.' end,
  completed_at = :now
where schedule_id = :schedule_id
  and (status = 'pending' or (status = 'running' and run_id is null))
returning job_id;

-- name: list
-- The slots of a schedule, newest first.
select r.id, r.schedule_id, r.scheduled_for, r.local_time, r.origin, r.status, r.reason, r.error_code, r.error_message, r.run_id, r.trace_id,
  r.job_id, r.replaced_by, r.requested_by, r.started_at, r.completed_at, r.created_at, r.timezone, r.begin_by
from cortex.schedule_run r
where r.schedule_id = :schedule_id
order by r.scheduled_for desc
limit :limit;

-- name: note_run
-- What a slot has started. No row means that the slot has ended meanwhile.
update cortex.schedule_run
set run_id = :run_id, trace_id = :trace_id
where id = :id and status = 'running'
returning id;

-- name: now
-- The time by which everybody goes.
select :now as now;

-- name: open
-- The slots of a schedule that have not ended, oldest first.
select r.id, r.schedule_id, r.scheduled_for, r.local_time, r.origin, r.status, r.reason, r.error_code, r.error_message, r.run_id, r.trace_id,
  r.job_id, r.replaced_by, r.requested_by, r.started_at, r.completed_at, r.created_at, r.timezone, r.begin_by
from cortex.schedule_run r
where r.schedule_id = :schedule_id and (r.status = 'pending' or r.status = 'running')
order by r.scheduled_for;

-- name: page [postgres]
-- The slots of a schedule before an instant, newest first.
-- Differs: instants are converted here.
select r.id, r.schedule_id, r.scheduled_for, r.local_time, r.origin, r.status, r.reason, r.error_code, r.error_message, r.run_id, r.trace_id,
  r.job_id, r.replaced_by, r.requested_by, r.started_at, r.completed_at, r.created_at, r.timezone, r.begin_by
from cortex.schedule_run r
where r.schedule_id = cast(:schedule_id as uuid) and r.scheduled_for < cortex.instant(cast(:before as bigint))
order by r.scheduled_for desc
limit :limit;

-- name: page [sqlite]
-- The slots of a schedule before an instant, newest first.
-- Differs: instants are converted there.
select r.id, r.schedule_id, r.scheduled_for, r.local_time, r.origin, r.status, r.reason, r.error_code, r.error_message, r.run_id, r.trace_id,
  r.job_id, r.replaced_by, r.requested_by, r.started_at, r.completed_at, r.created_at, r.timezone, r.begin_by
from cortex.schedule_run r
where r.schedule_id = :schedule_id and r.scheduled_for < :before
order by r.scheduled_for desc
limit :limit;

-- name: replaced_by
-- The slots whose place another took. One without a run may have started it without noting it.
select r.id, r.schedule_id, r.scheduled_for, r.local_time, r.origin, r.status, r.reason, r.error_code, r.error_message, r.run_id, r.trace_id,
  r.job_id, r.replaced_by, r.requested_by, r.started_at, r.completed_at, r.created_at, r.timezone, r.begin_by
from cortex.schedule_run r
where r.schedule_id = :schedule_id and r.replaced_by = :id
order by r.scheduled_for;

-- name: skip
-- A slot that was written down before is left out. No row means that it has begun, or ended.
update cortex.schedule_run
set status = 'skipped', reason = :reason, completed_at = :now
where id = :id and status = 'pending'
returning id;

-- name: skip_settled
-- The slots of a schedule's own rule that wait for their turn are left out.
update cortex.schedule_run
set status = 'skipped', reason = :reason, completed_at = :now
where schedule_id = :schedule_id and status = 'pending' and origin = 'cron'
returning id;

-- name: start
-- A slot that was written down before begins. No row means that it has begun, or ended.
update cortex.schedule_run
set status = 'running', started_at = :now, job_id = :job_id
where id = :id and status = 'pending'
returning id;

-- name: stuck
-- Slots that have not ended though the job that looks after them has, or is gone.
select r.id
from cortex.schedule_run r
left join cortex.job j on j.id = r.job_id
where r.id > :after
  and (r.status = 'pending' or r.status = 'running')
  and (j.id is null or j.finished_at is not null)
order by r.id
limit :limit;
