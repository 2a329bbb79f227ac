-- Moves a schedule on, if its chain still stands at the slot at which it was seen. No row means that somebody was faster.
-- Differs: the document is read part by part here.
update cortex.schedule
set name = :schedule ->> 'name',
  grant_id = :schedule ->> 'grant_id',
  graph_id = :schedule ->> 'graph_id',
  input = :schedule -> 'input',
  cron = :schedule ->> 'cron',
  timezone = :schedule ->> 'timezone',
  missed = :schedule ->> 'missed',
  most_missed = :schedule ->> 'most_missed',
  overlap = :schedule ->> 'overlap',
  jitter_seconds = :schedule ->> 'jitter_seconds',
  starts_at = :schedule ->> 'starts_at',
  ends_at = :schedule ->> 'ends_at',
  pause_after_failures = :schedule ->> 'pause_after_failures',
  enabled = :schedule ->> 'enabled',
  paused_by = :schedule ->> 'paused_by',
  paused_at = :schedule ->> 'paused_at',
  pause_reason = :schedule ->> 'pause_reason',
  failures = :schedule ->> 'failures',
  next_run_at = :schedule ->> 'next_run_at',
  last_run_at = :schedule ->> 'last_run_at',
  slot_job_id = :schedule ->> 'slot_job_id',
  zone_data = :schedule ->> 'zone_data',
  updated_at = :now
where id = :schedule ->> 'id'
  and next_run_at is :expected_next_run_at
returning id;
