-- Adds what was told of jobs, in order; what was told of a job that is gone is left out.
-- Differs: a batch is a jsonb record set here.
insert into cortex.job_event (job_id, run_id, at, kind, data)
select e.job_id, e.run_id, cortex.instant(e.at), e.kind, e.data
from rows from (jsonb_to_recordset(cast(:events as jsonb)) as (job_id uuid, run_id uuid, at bigint, kind text, data jsonb))
  with ordinality as e(job_id, run_id, at, kind, data, place)
where exists (select 1 from cortex.job j where j.id = e.job_id)
order by e.place;
