-- One reservation.
select id, queue, job_id, reserved_by, reserved_at, expires_at, status, ended_at
from cortex.direct_reservation
where id = :id;
