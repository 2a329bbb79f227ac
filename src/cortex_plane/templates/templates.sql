-- name: get
-- One template of a tenant by its name.
select id, tenant_id, name, job_type, params, queue, priority, max_retries, retry_policy, timeout_seconds, deadline_seconds, tags, version, created_by, changed_by,
  created_at, updated_at
from cortex.job_template
where tenant_id = :tenant_id and name = :name;

-- name: list
-- All templates of a tenant.
select id, tenant_id, name, job_type, params, queue, priority, max_retries, retry_policy, timeout_seconds, deadline_seconds, tags, version, created_by, changed_by,
  created_at, updated_at
from cortex.job_template
where tenant_id = :tenant_id
order by name;

-- name: put [postgres]
-- Saves a template under its name. An existing one takes the new values and its next version, if anything has changed.
-- Differs: PostgreSQL wants to be told the types.
insert into cortex.job_template as t
  (id, tenant_id, name, job_type, params, queue, priority, max_retries, retry_policy, timeout_seconds, deadline_seconds, tags,
  created_by, changed_by)
values (cast(:id as uuid), cast(:tenant_id as uuid), :name, :job_type, cast(:params as jsonb), cast(:queue as text), :priority,
  cast(:max_retries as int), cast(:retry_policy as jsonb), cast(:timeout_seconds as double precision),
  cast(:deadline_seconds as double precision), cast(:tags as jsonb),
  cast(:created_by as text), cast(:created_by as text))
on conflict (tenant_id, name) do update
set job_type = excluded.job_type,
  params = excluded.params,
  queue = excluded.queue,
  priority = excluded.priority,
  max_retries = excluded.max_retries,
  retry_policy = excluded.retry_policy,
  timeout_seconds = excluded.timeout_seconds,
  deadline_seconds = excluded.deadline_seconds,
  tags = excluded.tags,
  changed_by = excluded.changed_by,
  version = t.version + 1,
  updated_at = :now
where (t.job_type, t.params, t.queue, t.priority, t.max_retries, t.retry_policy, t.timeout_seconds, t.deadline_seconds, t.tags)
  is distinct from (excluded.job_type, excluded.params, excluded.queue, excluded.priority, excluded.max_retries,
    excluded.retry_policy, excluded.timeout_seconds, excluded.deadline_seconds, excluded.tags)
returning id, version;

-- name: put [sqlite]
-- Saves a template under its name. An existing one takes the new values and its next version, if anything has changed.
-- Differs: PostgreSQL wants to be told the types.
insert into cortex.job_template as t
  (id, tenant_id, name, job_type, params, queue, priority, max_retries, retry_policy, timeout_seconds, deadline_seconds, tags, created_by,
   changed_by, created_at, updated_at)
values (:id, :tenant_id, :name, :job_type, :params, :queue, :priority, :max_retries, :retry_policy, :timeout_seconds, :deadline_seconds, :tags,
  :created_by, :created_by, :now, :now)
on conflict (tenant_id, name) do update
set job_type = excluded.job_type,
  params = excluded.params,
  queue = excluded.queue,
  priority = excluded.priority,
  max_retries = excluded.max_retries,
  retry_policy = excluded.retry_policy,
  timeout_seconds = excluded.timeout_seconds,
  deadline_seconds = excluded.deadline_seconds,
  tags = excluded.tags,
  changed_by = excluded.changed_by,
  version = t.version + 1,
  updated_at = excluded.updated_at
where (t.job_type, t.params, t.queue, t.priority, t.max_retries, t.retry_policy, t.timeout_seconds, t.deadline_seconds, t.tags)
  is not (excluded.job_type, excluded.params, excluded.queue, excluded.priority, excluded.max_retries, excluded.retry_policy,
    excluded.timeout_seconds, excluded.deadline_seconds, excluded.tags)
returning id, version;

-- name: remove
-- Removes a template. Jobs that were made from it keep everything. No row means that there is none.
delete from cortex.job_template
where tenant_id = :tenant_id and name = :name
returning id, version;
