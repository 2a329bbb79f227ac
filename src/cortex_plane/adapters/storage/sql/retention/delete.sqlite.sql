-- Deletes jobs that have ended, with their runs and history.
-- Differs: a list is json_each here.
delete from cortex.job
where id in (select value from json_each(:job_ids))
  and status in ('COMPLETED', 'FAILED', 'CANCELLED')
returning id;
