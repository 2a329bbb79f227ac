-- Writes slots down; one that is there already stays as it is. Those that are running have just begun.
-- Differs: a batch is jsonb_each here.
insert into cortex.schedule_run
  (id, schedule_id, scheduled_for, local_time, origin, status, reason, job_id, trace_id, started_at, completed_at, created_at)
select value ->> 'id', value ->> 'schedule_id', value ->> 'scheduled_for', value ->> 'local_time', value ->> 'origin',
  value ->> 'status', value ->> 'reason', value ->> 'job_id', value ->> 'trace_id',
  iif(value ->> 'status' = 'running', :now, null), iif(value ->> 'status' = 'skipped', :now, null), :now
from jsonb_each(:slots)
where true
on conflict do nothing
returning id;
