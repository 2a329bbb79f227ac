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
