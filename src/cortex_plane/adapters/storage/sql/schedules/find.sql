-- A tenant's schedule, by its name.
select s.id, s.tenant_id, s.name, s.owner_id, s.grant_id, s.graph_id, s.input, s.cron, s.timezone, s.missed, s.most_missed, s.overlap,
  s.jitter_seconds, s.starts_at, s.ends_at, s.pause_after_failures, s.source, s.enabled, s.paused_by, s.paused_at,
  s.pause_reason, s.failures, s.next_run_at, s.last_run_at, s.slot_job_id, s.zone_data, s.created_by, s.created_at, s.updated_at
from cortex.schedule s
where s.tenant_id = :tenant_id and s.name = :name;
