-- Reservations whose holder has fallen silent while their job still waits.
select d.id, d.queue, d.job_id, d.reserved_by
from cortex.direct_reservation d
where d.status = 'ACTIVE'
  and d.expires_at <= :now
  and not exists (select 1 from cortex.job j where j.id = d.job_id and j.status = 'RUNNING')
order by d.id;
