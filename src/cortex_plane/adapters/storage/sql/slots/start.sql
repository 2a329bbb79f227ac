-- A slot that was written down before begins. No row means that it has begun, or ended.
update cortex.schedule_run
set status = 'running', started_at = :now, job_id = :job_id
where id = :id and status = 'pending'
returning id;
