-- name: give
-- A key is held by another job from now on.
update cortex.job_key
set job_id = :job_id
where tenant_id = :tenant_id and job_key = :job_key;

-- name: holder
-- What becomes of a key depends on the job that holds it.
select status, run_at from cortex.job where id = :id;

-- name: take [postgres]
-- Locks a key, and says which job holds it: this one, if nobody did.
-- Differs: PostgreSQL wants to be told the types.
insert into cortex.job_key (tenant_id, job_key, job_id)
values (cast(:tenant_id as uuid), :job_key, cast(:job_id as uuid))
on conflict (tenant_id, job_key) do update set job_key = excluded.job_key
returning job_id;

-- name: take [sqlite]
-- Says which job holds a key: this one, if nobody did.
-- Differs: PostgreSQL wants to be told the types.
insert into cortex.job_key (tenant_id, job_key, job_id)
values (:tenant_id, :job_key, :job_id)
on conflict (tenant_id, job_key) do update set job_key = excluded.job_key
returning job_id;
