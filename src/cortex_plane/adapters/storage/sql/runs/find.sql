-- Runs whose ids begin with a prefix: any that has not ended, and of the others those among the newest :looked_at.
select job_id, id
from cortex.job_run
where status = 'RUNNING'
  and id between :low and :high
union
select job_id, id
from (
  select job_id, id
  from cortex.job_run
  where job_id < :before
  order by job_id desc, id desc
  limit :looked_at
) as newest
where id between :low and :high
order by id
limit 5;
