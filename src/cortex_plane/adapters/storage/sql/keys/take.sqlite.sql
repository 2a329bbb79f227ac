-- Says which job holds a key: this one, if nobody did.
-- Differs: PostgreSQL wants to be told the types.
insert into cortex.job_key (tenant_id, job_key, job_id)
values (:tenant_id, :job_key, :job_id)
on conflict (tenant_id, job_key) do update set job_key = excluded.job_key
returning job_id;
