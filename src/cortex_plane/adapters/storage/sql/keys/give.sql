-- A key is held by another job from now on.
update cortex.job_key
set job_id = :job_id
where tenant_id = :tenant_id and job_key = :job_key;
