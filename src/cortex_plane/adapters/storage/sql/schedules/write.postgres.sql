-- Moves a schedule on, if its chain still stands at the slot at which it was seen. No row means that somebody was faster.
-- Differs: a document is a jsonb record here, and instants are converted.
update cortex.schedule t
set name = s.name,
  grant_id = s.grant_id,
  graph_id = s.graph_id,
  input = s.input,
  cron = s.cron,
  timezone = s.timezone,
  missed = s.missed,
  most_missed = s.most_missed,
  overlap = s.overlap,
  jitter_seconds = s.jitter_seconds,
  starts_at = cortex.instant(s.starts_at),
  ends_at = cortex.instant(s.ends_at),
  pause_after_failures = s.pause_after_failures,
  enabled = s.enabled,
  paused_by = s.paused_by,
  paused_at = cortex.instant(s.paused_at),
  pause_reason = s.pause_reason,
  failures = s.failures,
  next_run_at = cortex.instant(s.next_run_at),
  last_run_at = cortex.instant(s.last_run_at),
  slot_job_id = s.slot_job_id,
  zone_data = s.zone_data,
  updated_at = :now
from jsonb_to_record(cast(:schedule as jsonb)) as s(
  id uuid, name text, grant_id uuid, graph_id text, input jsonb, cron text, timezone text, missed text, most_missed int,
  overlap text, jitter_seconds double precision, starts_at bigint, ends_at bigint, pause_after_failures int, enabled boolean,
  paused_by text, paused_at bigint, pause_reason text, failures int, next_run_at bigint, last_run_at bigint,
  slot_job_id uuid, zone_data text)
where t.id = s.id
  and t.next_run_at is not distinct from cortex.instant(cast(:expected_next_run_at as bigint))
returning t.id;
