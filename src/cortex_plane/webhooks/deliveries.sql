-- name: due [postgres]
-- Failed deliveries that are to be tried again now, the longest due first; none to an endpoint that is disabled.
-- Differs: passes over what another worker sees to.
select d.job_id
from cortex.failed_delivery d
join cortex.job j on j.id = d.job_id
where d.retry_at <= :now
  and not exists (select 1 from cortex.webhook_endpoint e where cast(e.id as text) = j.payload ->> 'endpoint_id' and not e.enabled)
order by d.retry_at
limit :limit
for update of d skip locked;

-- name: due [sqlite]
-- Failed deliveries that are to be tried again now, the longest due first; none to an endpoint that is disabled.
-- Differs: there are no row locks.
select d.job_id
from cortex.failed_delivery d
join cortex.job j on j.id = d.job_id
where d.retry_at <= :now
  and not exists (select 1 from cortex.webhook_endpoint e where e.id = j.payload ->> 'endpoint_id' and not e.enabled)
order by d.retry_at
limit :limit;

-- name: give_up
-- Forgets the failed deliveries that were tried again for long enough. They stay FAILED.
delete from cortex.failed_delivery
where retry_at <= :now
  and give_up_at <= :now;

-- name: postpone [postgres]
-- Puts off the failed deliveries to endpoints that are disabled.
-- Differs: how instants are added.
update cortex.failed_delivery
set retry_at = cortex.now() + interval '5 minutes'
where retry_at <= :now
  and exists (
    select 1
    from cortex.job j
    join cortex.webhook_endpoint e on cast(e.id as text) = j.payload ->> 'endpoint_id'
    where j.id = failed_delivery.job_id and not e.enabled);

-- name: postpone [sqlite]
-- Puts off the failed deliveries to endpoints that are disabled.
-- Differs: how instants are added.
update cortex.failed_delivery
set retry_at = :now + 300000000
where retry_at <= :now
  and exists (
    select 1
    from cortex.job j
    join cortex.webhook_endpoint e on e.id = j.payload ->> 'endpoint_id'
    where j.id = failed_delivery.job_id and not e.enabled);

-- name: take
-- Takes a failed delivery off the list. No row: another worker did.
delete from cortex.failed_delivery
where job_id = :job_id
returning job_id;
