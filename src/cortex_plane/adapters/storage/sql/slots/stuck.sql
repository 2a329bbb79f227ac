-- Slots that have not ended though the job that looks after them has, or is gone.
select r.id
from cortex.schedule_run r
left join cortex.job j on j.id = r.job_id
where r.id > :after
  and (r.status = 'pending' or r.status = 'running')
  and (j.id is null or j.finished_at is not null)
order by r.id
limit :limit;
