-- The slots of a schedule before an instant, newest first.
-- Differs: instants are converted there.
select r.id, r.schedule_id, r.scheduled_for, r.local_time, r.origin, r.status, r.reason, r.error_code, r.error_message, r.run_id, r.trace_id,
  r.job_id, r.replaced_by, r.started_at, r.completed_at, r.created_at
from cortex.schedule_run r
where r.schedule_id = :schedule_id and r.scheduled_for < :before
order by r.scheduled_for desc
limit :limit;
