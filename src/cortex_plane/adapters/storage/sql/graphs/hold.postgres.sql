-- Makes sure that a run is its job's open run, until the transaction ends; no row when it was superseded.
-- Differs: another session could end the run meanwhile, so the row is locked.
select id
from cortex.job
where id = :job_id
  and run_id = :run_id
for share;
