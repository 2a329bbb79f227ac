-- How many jobs of a tenant run on a worker, without the plane's own.
select count(*) as jobs
from cortex.job_run
where status = 'RUNNING' and worker_id is not null and tenant_id = :tenant_id and queue <> 'cortex';
