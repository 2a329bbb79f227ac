-- Of the newest :limit jobs since :since that ended without success, those that failed.
-- Differs: here the join needs no fence.
select newest.job_id as id, j.tenant_id, j.job_type, j.error_message, newest.created_at as ended_at
from (
  select job_id, new_status, created_at
  from cortex.job_history
  where new_status in ('FAILED', 'CANCELLED')
    and job_id >= :since
  order by job_id desc
  limit :limit) newest
join cortex.job j on j.id = newest.job_id
where newest.new_status = 'FAILED'
  and j.queue <> 'cortex'
order by newest.job_id;
