-- name: add [postgres]
-- Adds a schedule. No row means that its tenant has one of that name already.
-- Differs: a document is a jsonb record here, and instants are converted.
insert into cortex.schedule
  (id, tenant_id, name, owner_id, grant_id, graph_id, input, cron, timezone, missed, most_missed, overlap, jitter_seconds,
   starts_at, ends_at, pause_after_failures, source, enabled, paused_by, paused_at, pause_reason, failures, next_run_at,
   last_run_at, slot_job_id, zone_data, created_by, changed_by)
select id, tenant_id, name, owner_id, grant_id, graph_id, input, cron, timezone, missed, most_missed, overlap, jitter_seconds,
  cortex.instant(starts_at), cortex.instant(ends_at), pause_after_failures, source, enabled, paused_by,
  cortex.instant(paused_at), pause_reason, failures, cortex.instant(next_run_at), cortex.instant(last_run_at), slot_job_id,
  zone_data, created_by, changed_by
from jsonb_to_record(cast(:schedule as jsonb)) as s(
  id uuid, tenant_id uuid, name text, owner_id uuid, grant_id uuid, graph_id text, input jsonb, cron text, timezone text,
  missed text, most_missed int, overlap text, jitter_seconds double precision, starts_at bigint, ends_at bigint,
  pause_after_failures int, source text, enabled boolean, paused_by text, paused_at bigint, pause_reason text, failures int,
  next_run_at bigint, last_run_at bigint, slot_job_id uuid, zone_data text, created_by text, changed_by text)
on conflict (tenant_id, name) where removed_at is null do nothing
returning id;

-- name: add [sqlite]
-- Adds a schedule. No row means that its tenant has one of that name already.
-- Differs: the document is read part by part here.
insert into cortex.schedule
  (id, tenant_id, name, owner_id, grant_id, graph_id, input, cron, timezone, missed, most_missed, overlap, jitter_seconds,
   starts_at, ends_at, pause_after_failures, source, enabled, paused_by, paused_at, pause_reason, failures, next_run_at,
   last_run_at, slot_job_id, zone_data, created_by, changed_by, created_at, updated_at)
select s ->> 'id', s ->> 'tenant_id', s ->> 'name', s ->> 'owner_id', s ->> 'grant_id', s ->> 'graph_id', s -> 'input',
  s ->> 'cron', s ->> 'timezone', s ->> 'missed', s ->> 'most_missed', s ->> 'overlap', s ->> 'jitter_seconds',
  s ->> 'starts_at', s ->> 'ends_at', s ->> 'pause_after_failures', s ->> 'source', s ->> 'enabled', s ->> 'paused_by',
  s ->> 'paused_at', s ->> 'pause_reason', s ->> 'failures', s ->> 'next_run_at', s ->> 'last_run_at', s ->> 'slot_job_id',
  s ->> 'zone_data', s ->> 'created_by', s ->> 'changed_by', :now, :now
from (select :schedule as s)
where true
on conflict (tenant_id, name) where removed_at is null do nothing
returning id;

-- name: any
-- Whether there are schedules at all.
select 1 as found
from cortex.schedule
where removed_at is null
limit 1;

-- name: broken
-- Schedules, by id, whose chain has no job that goes on, or whose slot was reckoned by other time-zone data.
select s.id
from cortex.schedule s
left join cortex.job j on j.id = s.slot_job_id
where s.enabled
  and s.id > :after
  and ((s.next_run_at is not null and (j.id is null or j.finished_at is not null)) or s.zone_data <> :zone_data)
order by s.id
limit :limit;

-- name: find
-- A tenant's schedule, by its name.
select s.id, s.tenant_id, s.name, s.owner_id, s.grant_id, s.graph_id, s.input, s.cron, s.timezone, s.missed, s.most_missed, s.overlap,
  s.jitter_seconds, s.starts_at, s.ends_at, s.pause_after_failures, s.source, s.enabled, s.paused_by, s.paused_at,
  s.pause_reason, s.failures, s.next_run_at, s.last_run_at, s.slot_job_id, s.zone_data, s.created_by, s.changed_by,
  s.removed_at, s.removed_by, s.created_at, s.updated_at
from cortex.schedule s
where s.tenant_id = :tenant_id and s.name = :name and s.removed_at is null;

-- name: get
-- One schedule as it stands.
select s.id, s.tenant_id, s.name, s.owner_id, s.grant_id, s.graph_id, s.input, s.cron, s.timezone, s.missed, s.most_missed, s.overlap,
  s.jitter_seconds, s.starts_at, s.ends_at, s.pause_after_failures, s.source, s.enabled, s.paused_by, s.paused_at,
  s.pause_reason, s.failures, s.next_run_at, s.last_run_at, s.slot_job_id, s.zone_data, s.created_by, s.changed_by,
  s.removed_at, s.removed_by, s.created_at, s.updated_at
from cortex.schedule s
where s.id = :id;

-- name: job_ended
-- Whether a slot's job has ended, or is gone: no row means that it goes on.
select 1 as ended
where not exists (select 1 from cortex.job where id = :id and finished_at is null);

-- name: list
-- All schedules, or those of one tenant, by name.
select s.id, s.tenant_id, s.name, s.owner_id, s.grant_id, s.graph_id, s.input, s.cron, s.timezone, s.missed, s.most_missed, s.overlap,
  s.jitter_seconds, s.starts_at, s.ends_at, s.pause_after_failures, s.source, s.enabled, s.paused_by, s.paused_at,
  s.pause_reason, s.failures, s.next_run_at, s.last_run_at, s.slot_job_id, s.zone_data, s.created_by, s.changed_by,
  s.removed_at, s.removed_by, s.created_at, s.updated_at
from cortex.schedule s
where (cast(:tenant_id as text) is null or cast(s.tenant_id as text) = cast(:tenant_id as text))
  and s.removed_at is null
order by s.name, s.id;

-- name: lock [postgres]
-- Locks a schedule, and says how it stands. No row means that there is none.
-- Differs: the lock.
select s.id, s.tenant_id, s.name, s.owner_id, s.grant_id, s.graph_id, s.input, s.cron, s.timezone, s.missed, s.most_missed, s.overlap,
  s.jitter_seconds, s.starts_at, s.ends_at, s.pause_after_failures, s.source, s.enabled, s.paused_by, s.paused_at,
  s.pause_reason, s.failures, s.next_run_at, s.last_run_at, s.slot_job_id, s.zone_data, s.created_by, s.changed_by,
  s.removed_at, s.removed_by, s.created_at, s.updated_at
from cortex.schedule s
where s.id = cast(:id as uuid)
for update;

-- name: lock [sqlite]
-- Says how a schedule stands. No row means that there is none.
-- Differs: whoever writes is alone, so there is nothing to lock.
select s.id, s.tenant_id, s.name, s.owner_id, s.grant_id, s.graph_id, s.input, s.cron, s.timezone, s.missed, s.most_missed, s.overlap,
  s.jitter_seconds, s.starts_at, s.ends_at, s.pause_after_failures, s.source, s.enabled, s.paused_by, s.paused_at,
  s.pause_reason, s.failures, s.next_run_at, s.last_run_at, s.slot_job_id, s.zone_data, s.created_by, s.changed_by,
  s.removed_at, s.removed_by, s.created_at, s.updated_at
from cortex.schedule s
where s.id = :id;

-- name: of_grant
-- The schedules under a grant that are not paused, in the order in which they are locked.
select id
from cortex.schedule
where grant_id = :grant_id and enabled
order by id;

-- name: page
-- The schedules of one tenant after a name, by name.
select s.id, s.tenant_id, s.name, s.owner_id, s.grant_id, s.graph_id, s.input, s.cron, s.timezone, s.missed, s.most_missed, s.overlap,
  s.jitter_seconds, s.starts_at, s.ends_at, s.pause_after_failures, s.source, s.enabled, s.paused_by, s.paused_at,
  s.pause_reason, s.failures, s.next_run_at, s.last_run_at, s.slot_job_id, s.zone_data, s.created_by, s.changed_by,
  s.removed_at, s.removed_by, s.created_at, s.updated_at
from cortex.schedule s
where s.tenant_id = :tenant_id and s.name > :after and s.removed_at is null
order by s.name
limit :limit;

-- name: remove
-- Removes a schedule. Its row and the record of its slots stay; its name is free.
update cortex.schedule
set removed_at = :now, removed_by = :actor, updated_at = :now,
  enabled = false, paused_by = :actor, paused_at = :now, pause_reason = 'removed', next_run_at = null, slot_job_id = null
where id = :id and removed_at is null
returning id;

-- name: take_turn [postgres]
-- One of many looks through the schedules; no row means that somebody did so a moment ago.
-- Differs: an interval is written otherwise here.
update cortex.schedule_reconciler
set reconciled_at = :now
where id = 1 and reconciled_at <= :now - cast(:rest_seconds as double precision) * interval '1 second'
returning id;

-- name: take_turn [sqlite]
-- One of many looks through the schedules; no row means that somebody did so a moment ago.
-- Differs: an interval is written otherwise here.
update cortex.schedule_reconciler
set reconciled_at = :now
where id = 1 and reconciled_at <= :now - cast(round(1000000 * :rest_seconds) as integer)
returning id;

-- name: write [postgres]
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
  changed_by = s.changed_by,
  updated_at = :now
from jsonb_to_record(cast(:schedule as jsonb)) as s(
  id uuid, name text, grant_id uuid, graph_id text, input jsonb, cron text, timezone text, missed text, most_missed int,
  overlap text, jitter_seconds double precision, starts_at bigint, ends_at bigint, pause_after_failures int, enabled boolean,
  paused_by text, paused_at bigint, pause_reason text, failures int, next_run_at bigint, last_run_at bigint,
  slot_job_id uuid, zone_data text, changed_by text)
where t.id = s.id
  and t.next_run_at is not distinct from cortex.instant(cast(:expected_next_run_at as bigint))
returning t.id;

-- name: write [sqlite]
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
  changed_by = :schedule ->> 'changed_by',
  updated_at = :now
where id = :schedule ->> 'id'
  and next_run_at is :expected_next_run_at
returning id;
