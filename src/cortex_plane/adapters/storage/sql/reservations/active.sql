-- The reservation that a queue is under.
select id, queue, job_id, reserved_by, reserved_at, expires_at, status, ended_at
from cortex.direct_reservation
where queue = :queue and status = 'ACTIVE';
