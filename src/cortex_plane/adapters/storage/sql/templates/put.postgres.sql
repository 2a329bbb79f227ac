-- Saves a template under its name. An existing one takes the new values and its next version, if anything has changed.
-- Differs: PostgreSQL wants to be told the types.
insert into cortex.job_template as t
  (id, tenant_id, name, job_type, params, queue, priority, max_retries, retry_policy, timeout_seconds, tags, created_by)
values (cast(:id as uuid), cast(:tenant_id as uuid), :name, :job_type, cast(:params as jsonb), cast(:queue as text), :priority,
  cast(:max_retries as int), cast(:retry_policy as jsonb), cast(:timeout_seconds as double precision), cast(:tags as jsonb),
  cast(:created_by as text))
on conflict (tenant_id, name) do update
set job_type = excluded.job_type,
  params = excluded.params,
  queue = excluded.queue,
  priority = excluded.priority,
  max_retries = excluded.max_retries,
  retry_policy = excluded.retry_policy,
  timeout_seconds = excluded.timeout_seconds,
  tags = excluded.tags,
  version = t.version + 1,
  updated_at = :now
where (t.job_type, t.params, t.queue, t.priority, t.max_retries, t.retry_policy, t.timeout_seconds, t.tags)
  is distinct from (excluded.job_type, excluded.params, excluded.queue, excluded.priority, excluded.max_retries,
    excluded.retry_policy, excluded.timeout_seconds, excluded.tags)
returning id, version;
