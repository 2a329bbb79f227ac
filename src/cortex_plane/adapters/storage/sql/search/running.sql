-- The newest jobs before :before that have an open run.
select r.job_id as id
from cortex.job_run r
where r.status = 'RUNNING'
  and r.job_id < :before
order by r.job_id desc
limit :limit;
