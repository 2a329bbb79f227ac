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
