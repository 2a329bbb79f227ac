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
