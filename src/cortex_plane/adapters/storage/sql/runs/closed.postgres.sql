-- Those of some runs that are closed, with who closed them.
-- Differs: a list of ids is an array here.
select r.job_id, r.id as run_id, r.status, r.closed_by
from unnest(cast(:job_ids as uuid[]), cast(:run_ids as uuid[])) as w(job_id, run_id)
join cortex.job_run r on r.job_id = w.job_id and r.id = w.run_id
where r.status <> 'RUNNING';
