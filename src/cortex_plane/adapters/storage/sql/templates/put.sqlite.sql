-- Saves a template under its name. An existing one takes the new values and its next version, if anything has changed.
-- Differs: PostgreSQL wants to be told the types.
insert into cortex.job_template as t
  (id, tenant_id, name, job_type, params, queue, priority, max_retries, retry_policy, timeout_seconds, tags, created_by, created_at,
   updated_at)
values (:id, :tenant_id, :name, :job_type, :params, :queue, :priority, :max_retries, :retry_policy, :timeout_seconds, :tags,
  :created_by, :now, :now)
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
  updated_at = excluded.updated_at
where (t.job_type, t.params, t.queue, t.priority, t.max_retries, t.retry_policy, t.timeout_seconds, t.tags)
  is not (excluded.job_type, excluded.params, excluded.queue, excluded.priority, excluded.max_retries, excluded.retry_policy,
    excluded.timeout_seconds, excluded.tags)
returning id, version;
