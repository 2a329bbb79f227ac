-- A group, before its members. Sent twice, it changes nothing: the id is the caller's.
-- Differs: PostgreSQL wants to be told the types.
insert into cortex.job_group (id, tenant_id, name, mode, on_failure, callback, created_by)
values (cast(:id as uuid), cast(:tenant_id as uuid), cast(:name as text), :mode, :on_failure, cast(:callback as jsonb),
  cast(:created_by as text))
on conflict (id) do nothing;
