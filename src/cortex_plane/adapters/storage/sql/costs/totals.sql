-- What was spent, by tenant and agent.
select c.tenant_id, t.name as tenant, c.job_type, c.cents
from cortex.cost_total c
join cortex.tenant t on t.id = c.tenant_id
where (cast(:tenant_id as text) is null or cast(c.tenant_id as text) = cast(:tenant_id as text))
  and (cast(:job_type as text) is null or c.job_type = cast(:job_type as text))
order by t.name, c.job_type;
