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
