-- No member is open any more. No row means that this was known.
-- Differs: PostgreSQL wants to be told the types.
update cortex.job_group
set finished_at = :now, callback_job_id = :callback_job_id
where id = :id and finished_at is null
returning id;
