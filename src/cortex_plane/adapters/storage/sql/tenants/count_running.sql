-- How many jobs of a tenant run.
select count(*) as jobs
from cortex.job_run
where status = 'RUNNING' and tenant_id = :tenant_id;
