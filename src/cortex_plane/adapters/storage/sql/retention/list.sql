-- All rules, oldest first.
select r.id, r.tenant_id, t.name as tenant, r.job_type, r.status, r.keep_seconds, r.created_by, r.created_at
from cortex.retention_rule r
left join cortex.tenant t on t.id = r.tenant_id
order by r.created_at, r.id;
