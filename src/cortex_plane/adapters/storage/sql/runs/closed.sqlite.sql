-- Those of some runs that are closed, with who closed them.
-- Differs: a list of ids is JSON here.
select r.job_id, r.id as run_id, r.status, r.closed_by
from json_each(:job_ids) j
join json_each(:run_ids) w on w.key = j.key
join cortex.job_run r on r.job_id = j.value and r.id = w.value
where r.status <> 'RUNNING';
