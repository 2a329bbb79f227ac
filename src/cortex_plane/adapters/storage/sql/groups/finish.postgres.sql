-- No member is open any more. No row means that this was known.
-- Differs: PostgreSQL wants to be told the types.
update cortex.job_group
set finished_at = :now, callback_job_id = cast(:callback_job_id as uuid)
where id = cast(:id as uuid) and finished_at is null
returning id;
