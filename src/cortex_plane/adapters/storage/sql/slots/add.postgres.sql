-- Writes slots down; one that is there already stays as it is. Those that are running have just begun.
-- Differs: a batch is a jsonb record set here, and instants are converted.
insert into cortex.schedule_run
  (id, schedule_id, scheduled_for, local_time, origin, status, reason, job_id, trace_id, started_at, completed_at)
select id, schedule_id, cortex.instant(scheduled_for), local_time, origin, status, reason, job_id, trace_id,
  case when status = 'running' then :now end, case when status = 'skipped' then :now end
from jsonb_to_recordset(cast(:slots as jsonb)) as r(
  id uuid, schedule_id uuid, scheduled_for bigint, local_time text, origin text, status text, reason text, job_id uuid,
  trace_id text)
on conflict do nothing
returning id;
