-- What the runs of one job told last, newest first.
select seq, job_id, run_id, at, kind, data
from cortex.job_event
where job_id = :job_id
order by seq desc
limit :limit;
