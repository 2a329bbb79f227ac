-- Of the newest :limit jobs since :since that ended without success, those that failed.
-- Differs: the fence (offset 0) keeps the join a look-up by index, so that it never reads all jobs.
select newest.job_id as id, j.tenant_id, j.job_type, j.error_message, newest.created_at as ended_at
from (
  select job_id, new_status, created_at
  from cortex.job_history
  where new_status in ('FAILED', 'CANCELLED')
    and job_id >= :since
  order by job_id desc
  limit :limit) newest
cross join lateral (select tenant_id, job_type, queue, error_message from cortex.job where id = newest.job_id offset 0) j
where newest.new_status = 'FAILED'
  and j.queue <> 'cortex'
order by newest.job_id;
