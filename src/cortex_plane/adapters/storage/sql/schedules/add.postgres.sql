-- Adds a schedule. No row means that its tenant has one of that name already.
-- Differs: a document is a jsonb record here, and instants are converted.
insert into cortex.schedule
  (id, tenant_id, name, owner_id, grant_id, graph_id, input, cron, timezone, missed, most_missed, overlap, jitter_seconds,
   starts_at, ends_at, pause_after_failures, source, enabled, paused_by, paused_at, pause_reason, failures, next_run_at,
   last_run_at, slot_job_id, zone_data, created_by)
select id, tenant_id, name, owner_id, grant_id, graph_id, input, cron, timezone, missed, most_missed, overlap, jitter_seconds,
  cortex.instant(starts_at), cortex.instant(ends_at), pause_after_failures, source, enabled, paused_by,
  cortex.instant(paused_at), pause_reason, failures, cortex.instant(next_run_at), cortex.instant(last_run_at), slot_job_id,
  zone_data, created_by
from jsonb_to_record(cast(:schedule as jsonb)) as s(
  id uuid, tenant_id uuid, name text, owner_id uuid, grant_id uuid, graph_id text, input jsonb, cron text, timezone text,
  missed text, most_missed int, overlap text, jitter_seconds double precision, starts_at bigint, ends_at bigint,
  pause_after_failures int, source text, enabled boolean, paused_by text, paused_at bigint, pause_reason text, failures int,
  next_run_at bigint, last_run_at bigint, slot_job_id uuid, zone_data text, created_by text)
on conflict (tenant_id, name) do nothing
returning id;
