-- One template of a tenant by its name.
select id, tenant_id, name, job_type, params, queue, priority, max_retries, retry_policy, timeout_seconds, tags, version, created_by,
  created_at, updated_at
from cortex.job_template
where tenant_id = :tenant_id and name = :name;
