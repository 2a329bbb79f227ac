-- Ends the rescue of lost workers that have no open run left.
update cortex.worker
set ended_at = :now
where status = 'LOST' and ended_at is null
  and not exists (select 1 from cortex.job_run r where r.worker_id = worker.id and r.status = 'RUNNING');
