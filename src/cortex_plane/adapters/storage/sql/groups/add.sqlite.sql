-- A group, before its members. Sent twice, it changes nothing: the id is the caller's.
-- Differs: PostgreSQL wants to be told the types.
insert into cortex.job_group (id, tenant_id, name, mode, on_failure, callback, created_by, created_at)
values (:id, :tenant_id, :name, :mode, :on_failure, :callback, :created_by, :now)
on conflict (id) do nothing;
