-- Where a waiting job stands: its entry, and how many ready ones of its queue are before it, counted up to a thousand.
select e.state, e.due_at, e.serial_key, e.tenant_id,
  (select count(*) from (
    select 1 from cortex.queue_entry b
    where b.queue = e.queue and b.state = 'ready'
      and (b.rank, b.position, b.created_at, b.job_id) < (e.rank, e.position, e.created_at, e.job_id)
    limit 1000) before) as ahead,
  (select r.job_id from cortex.job_run r
    where r.tenant_id = e.tenant_id and r.serial_key = e.serial_key and r.status = 'RUNNING' and r.worker_id is not null
    limit 1) as key_held_by,
  (select k.job_id from cortex.queue_entry k
    where k.tenant_id = e.tenant_id and k.serial_key = e.serial_key and k.state = 'ready' limit 1) as key_next
from cortex.queue_entry e
where e.job_id = :id;
