-- Every transition of one job, in order.
select job_id, revision, previous_status, new_status, cause, actor, run_id, metadata, created_at
from cortex.job_history
where job_id = :id
order by revision;
