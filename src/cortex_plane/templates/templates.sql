-- fragment: columns
id, tenant_id, name, job_type, params, options, version, created_by, changed_by, created_at, updated_at

-- name: get
-- One template of a tenant by its name.
select {columns}
from cortex.job_template
where tenant_id = :tenant_id and name = :name;

-- name: list
-- All templates of a tenant.
select {columns}
from cortex.job_template
where tenant_id = :tenant_id
order by name;

-- name: put [postgres]
-- Saves a template under its name. An existing one takes the new values and its next version, if anything has changed.
-- Differs: PostgreSQL wants to be told the types, and has defaults for the times.
insert into cortex.job_template as t (id, tenant_id, name, job_type, params, options, created_by, changed_by)
values (cast(:id as uuid), cast(:tenant_id as uuid), :name, :job_type, cast(:params as jsonb), cast(:options as jsonb),
  cast(:created_by as text), cast(:created_by as text))
on conflict (tenant_id, name) do update
set job_type = excluded.job_type,
  params = excluded.params,
  options = excluded.options,
  changed_by = excluded.changed_by,
  version = t.version + 1,
  updated_at = :now
where (t.job_type, t.params, t.options) is distinct from (excluded.job_type, excluded.params, excluded.options)
returning id, version;

-- name: put [sqlite]
-- Saves a template under its name. An existing one takes the new values and its next version, if anything has changed.
-- Differs: PostgreSQL wants to be told the types, and has defaults for the times.
insert into cortex.job_template as t
  (id, tenant_id, name, job_type, params, options, created_by, changed_by, created_at, updated_at)
values (:id, :tenant_id, :name, :job_type, :params, :options, :created_by, :created_by, :now, :now)
on conflict (tenant_id, name) do update
set job_type = excluded.job_type,
  params = excluded.params,
  options = excluded.options,
  changed_by = excluded.changed_by,
  version = t.version + 1,
  updated_at = excluded.updated_at
where (t.job_type, t.params, t.options) is not (excluded.job_type, excluded.params, excluded.options)
returning id, version;

-- name: remove
-- Removes a template. Jobs that were made from it keep everything. No row means that there is none.
delete from cortex.job_template
where tenant_id = :tenant_id and name = :name
returning id, version;
