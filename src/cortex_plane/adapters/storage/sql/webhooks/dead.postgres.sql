-- The newest deliveries before :before that failed for good and were not sent again, found through their last line of history.
-- Differs: the fence (offset 0) keeps the join a look-up by index, so that a page never reads all jobs.
select j.id, j.tenant_id, j.payload ->> 'endpoint_id' as endpoint_id, e.url, j.payload ->> 'event_id' as event_id,
  j.payload -> 'event' ->> 'type' as event_type, j.attempt, j.error_message, j.finished_at
from cortex.job_history h
cross join lateral (select * from cortex.job where id = h.job_id offset 0) j
left join cortex.webhook_endpoint e on cast(e.id as text) = j.payload ->> 'endpoint_id'
where h.new_status = 'FAILED'
  and h.job_id < :before
  and j.job_type = 'cortex.webhook'
  and (cast(:tenant_id as text) is null or cast(j.tenant_id as text) = cast(:tenant_id as text))
  and not exists (select 1 from cortex.job r where r.retry_of = j.id)
order by h.job_id desc
limit :limit;
