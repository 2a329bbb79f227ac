-- The newest deliveries before :before that failed for good and were not sent again, found through their last line of history.
-- Differs: here the join needs no fence.
select j.id, j.tenant_id, j.payload ->> 'endpoint_id' as endpoint_id, e.url, j.payload ->> 'event_id' as event_id,
  j.payload -> 'event' ->> 'type' as event_type, j.attempt, j.error_message, j.finished_at
from cortex.job_history h
join cortex.job j on j.id = h.job_id
left join cortex.webhook_endpoint e on e.id = j.payload ->> 'endpoint_id'
where h.new_status = 'FAILED'
  and h.job_id < :before
  and j.job_type = 'cortex.webhook'
  and (:tenant_id is null or j.tenant_id = :tenant_id)
  and not exists (select 1 from cortex.job r where r.retry_of = j.id)
order by h.job_id desc
limit :limit;
