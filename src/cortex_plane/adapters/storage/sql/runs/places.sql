-- Where the next :limit runs are, those of the newest jobs first.
select job_id, id
from cortex.job_run
where (job_id, id) < (:job_id, :id)
order by job_id desc, id desc
limit :limit;
