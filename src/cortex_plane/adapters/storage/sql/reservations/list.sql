-- All reservations that are in force.
select id, queue, job_id, reserved_by, reserved_at, expires_at, status, ended_at
from cortex.direct_reservation
where status = 'ACTIVE'
order by queue;
