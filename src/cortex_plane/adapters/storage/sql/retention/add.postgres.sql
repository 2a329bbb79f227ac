-- Adds a rule. No row means that there is one for the same jobs already.
-- Differs: PostgreSQL wants to be told the types.
insert into cortex.retention_rule (id, tenant_id, job_type, status, keep_seconds, created_by)
values (cast(:id as uuid), cast(:tenant_id as uuid), cast(:job_type as text), cast(cast(:status as text) as cortex.job_status),
  cast(:keep_seconds as bigint), cast(:created_by as text))
on conflict do nothing
returning id;
