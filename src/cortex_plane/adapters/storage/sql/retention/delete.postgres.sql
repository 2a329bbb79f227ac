-- Deletes jobs that have ended, with their runs and history.
-- Differs: a function fixes the plans of the triggers too.
select cortex.delete_jobs(cast(:job_ids as uuid[])) as id;
