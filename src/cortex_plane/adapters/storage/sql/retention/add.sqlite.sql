-- Adds a rule. No row means that there is one for the same jobs already.
-- Differs: PostgreSQL wants to be told the types.
insert into cortex.retention_rule (id, tenant_id, job_type, status, keep_seconds, created_by, created_at)
values (:id, :tenant_id, :job_type, :status, :keep_seconds, :created_by, :now)
on conflict do nothing
returning id;
