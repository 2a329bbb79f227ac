-- A worker leaves in order. No row: it is not LIVE any more, or still has an open run, which somebody must rescue.
update cortex.worker
set status = 'STOPPED', ended_at = :now
where id = :id and status = 'LIVE'
  and not exists (select 1 from cortex.job_run r where r.worker_id = worker.id and r.status = 'RUNNING')
returning id;
