-- How many jobs run on a worker, by queue, agent and tenant.
select queue, job_type, tenant_id, count(*) as runs
from cortex.job_run
where status = 'RUNNING' and worker_id is not null
group by queue, job_type, tenant_id;
