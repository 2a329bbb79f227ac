-- The newest jobs before :before that ended FAILED or CANCELLED, found through their last line of history.
select h.job_id as id
from cortex.job_history h
where h.new_status in ('FAILED', 'CANCELLED')
  and h.job_id < :before
order by h.job_id desc
limit :limit;
