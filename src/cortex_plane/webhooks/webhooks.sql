-- name: add
-- Adds an endpoint.
insert into cortex.webhook_endpoint (id, tenant_id, url, secret, events, description, allow_private, created_by, created_at)
values (:id, :tenant_id, :url, :secret, :events, :description, :allow_private, :created_by, :now);

-- name: dead [postgres]
-- Those of the jobs that were deliveries, failed for good and were not sent again, newest first.
-- Differs: lists are arrays, and the fence (offset 0) keeps the join a look-up by index, so that a page never reads all jobs.
select j.id, j.tenant_id, j.payload ->> 'endpoint_id' as endpoint_id, e.url, j.payload ->> 'event_id' as event_id,
  j.payload -> 'event' ->> 'type' as event_type, j.attempt, j.error_message, j.finished_at
from unnest(cast(:ids as uuid[])) as i(id)
cross join lateral (select * from cortex.job where id = i.id offset 0) j
left join cortex.webhook_endpoint e on cast(e.id as text) = j.payload ->> 'endpoint_id'
where j.job_type = 'cortex.webhook'
  and j.status = 'FAILED'
  and (cast(:tenant_id as text) is null or cast(j.tenant_id as text) = cast(:tenant_id as text))
  and not exists (select 1 from cortex.job r where r.retry_of = j.id)
order by j.id desc
limit :limit;

-- name: dead [sqlite]
-- Those of the jobs that were deliveries, failed for good and were not sent again, newest first.
-- Differs: lists are JSON text.
select j.id, j.tenant_id, j.payload ->> 'endpoint_id' as endpoint_id, e.url, j.payload ->> 'event_id' as event_id,
  j.payload -> 'event' ->> 'type' as event_type, j.attempt, j.error_message, j.finished_at
from json_each(:ids) i
join cortex.job j on j.id = i.value
left join cortex.webhook_endpoint e on e.id = j.payload ->> 'endpoint_id'
where j.job_type = 'cortex.webhook'
  and j.status = 'FAILED'
  and (:tenant_id is null or j.tenant_id = :tenant_id)
  and not exists (select 1 from cortex.job r where r.retry_of = j.id)
order by j.id desc
limit :limit;

-- name: disable
-- Disables an endpoint. No row means that it is unknown, or disabled already.
update cortex.webhook_endpoint
set enabled = false, disabled_at = :now, disabled_reason = :reason
where id = :id and enabled
returning id;

-- name: enable
-- Enables an endpoint. No row means that it is unknown, or enabled already.
update cortex.webhook_endpoint
set enabled = true, disabled_at = null, disabled_reason = null
where id = :id and not enabled
returning id;

-- name: list
-- All endpoints, or those of one tenant, oldest first. Without their secrets.
select e.id, e.tenant_id, t.name as tenant, e.url, e.events, e.enabled, e.description, e.allow_private, e.created_by,
  e.created_at, e.disabled_at, e.disabled_reason
from cortex.webhook_endpoint e
join cortex.tenant t on t.id = e.tenant_id
where cast(:tenant_id as text) is null or cast(e.tenant_id as text) = cast(:tenant_id as text)
order by e.id;

-- name: reissue
-- Gives an endpoint that was added, and whose secret was never shown, a new one. No row means that it was not added.
update cortex.webhook_endpoint
set secret = :secret
where id = :id
returning id;

-- name: remove
-- Removes an endpoint. No row means that there was none.
delete from cortex.webhook_endpoint
where id = :id
returning id;

-- name: target
-- What a delivery needs to know of its endpoint. The only statement that reads a secret.
select tenant_id, url, secret, enabled, allow_private
from cortex.webhook_endpoint
where id = :id;

-- name: tell_once [postgres]
-- Notes that an endpoint is told of a subject. No row: it was told of it by another event, a short while ago.
-- Differs: lengths of time.
insert into cortex.webhook_notice as n (endpoint_id, subject, event_id, told_at)
values (:endpoint_id, :subject, :event_id, :now)
on conflict (endpoint_id, subject) do update
set event_id = excluded.event_id, told_at = excluded.told_at
where n.event_id = excluded.event_id or n.told_at <= :now - make_interval(secs => cast(:seconds as double precision))
returning event_id;

-- name: tell_once [sqlite]
-- Notes that an endpoint is told of a subject. No row: it was told of it by another event, a short while ago.
-- Differs: lengths of time.
insert into cortex.webhook_notice as n (endpoint_id, subject, event_id, told_at)
values (:endpoint_id, :subject, :event_id, :now)
on conflict (endpoint_id, subject) do update
set event_id = excluded.event_id, told_at = excluded.told_at
where n.event_id = excluded.event_id or n.told_at <= :now - cast(:seconds * 1000000 as integer)
returning event_id;
