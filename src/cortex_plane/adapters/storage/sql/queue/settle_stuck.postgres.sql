-- Settles serial keys that nobody holds though jobs wait for them: their holder's transaction was undone at a bad moment.
-- Differs: here it can happen, because settling never waits for a lock.
select cortex.settle_serial_keys(array_agg(k.tenant_id), array_agg(k.serial_key))
from (
  select e.tenant_id, e.serial_key
  from cortex.queue_entry e
  where e.state = 'blocked' and e.serial_key is not null and e.state in ('ready', 'blocked')
    and not exists (
      select 1 from cortex.queue_entry r
      where r.tenant_id = e.tenant_id and r.serial_key = e.serial_key and r.state = 'ready')
    and not exists (
      select 1 from cortex.job_run r
      where r.tenant_id = e.tenant_id and r.serial_key = e.serial_key and r.status = 'RUNNING' and r.worker_id is not null)
  limit 100
) k
having count(*) > 0;
