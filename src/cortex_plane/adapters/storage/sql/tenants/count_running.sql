-- How many jobs of a tenant run on a worker.
select count(*) as jobs
from cortex.job_run
where status = 'RUNNING' and worker_id is not null and tenant_id = :tenant_id;
