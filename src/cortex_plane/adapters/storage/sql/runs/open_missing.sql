-- Opens the run that a RUNNING job lacks, so that it can be closed as any other.
insert into cortex.job_run
  (id, job_id, attempt, worker_id, tenant_id, queue, job_type, serial_key, template_id, params_snapshot, started_at)
select j.run_id, j.id, j.attempt, j.worker_id, j.tenant_id, j.queue, j.job_type, j.serial_key, j.template_id, j.payload, j.updated_at
from cortex.job j
where j.id = :id
  and j.status = 'RUNNING'
  and not exists (select 1 from cortex.job_run r where r.job_id = j.id and r.id = j.run_id);
