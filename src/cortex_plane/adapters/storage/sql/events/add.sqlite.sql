-- Adds what was told of jobs, in order; what was told of a job that is gone is left out.
-- Differs: a batch is jsonb_each here.
insert into cortex.job_event (job_id, run_id, at, kind, data)
select e.value ->> 'job_id', e.value ->> 'run_id', e.value ->> 'at', e.value ->> 'kind', e.value -> 'data'
from jsonb_each(:events) e
where exists (select 1 from cortex.job j where j.id = e.value ->> 'job_id')
order by e.key;
