-- Locks a key, and says which job holds it: this one, if nobody did.
-- Differs: PostgreSQL wants to be told the types.
insert into cortex.job_key (tenant_id, job_key, job_id)
values (cast(:tenant_id as uuid), :job_key, cast(:job_id as uuid))
on conflict (tenant_id, job_key) do update set job_key = excluded.job_key
returning job_id;
