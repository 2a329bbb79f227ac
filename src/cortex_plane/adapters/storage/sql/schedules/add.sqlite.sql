-- Adds a schedule. No row means that its tenant has one of that name already.
-- Differs: the document is read part by part here.
insert into cortex.schedule
  (id, tenant_id, name, owner_id, grant_id, graph_id, input, cron, timezone, missed, most_missed, overlap, jitter_seconds,
   starts_at, ends_at, pause_after_failures, source, enabled, paused_by, paused_at, pause_reason, failures, next_run_at,
   last_run_at, slot_job_id, zone_data, created_by, created_at, updated_at)
select s ->> 'id', s ->> 'tenant_id', s ->> 'name', s ->> 'owner_id', s ->> 'grant_id', s ->> 'graph_id', s -> 'input',
  s ->> 'cron', s ->> 'timezone', s ->> 'missed', s ->> 'most_missed', s ->> 'overlap', s ->> 'jitter_seconds',
  s ->> 'starts_at', s ->> 'ends_at', s ->> 'pause_after_failures', s ->> 'source', s ->> 'enabled', s ->> 'paused_by',
  s ->> 'paused_at', s ->> 'pause_reason', s ->> 'failures', s ->> 'next_run_at', s ->> 'last_run_at', s ->> 'slot_job_id',
  s ->> 'zone_data', s ->> 'created_by', :now, :now
from (select :schedule as s)
where true
on conflict (tenant_id, name) do nothing
returning id;
