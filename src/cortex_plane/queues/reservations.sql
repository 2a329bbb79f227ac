-- name: active
-- The reservation that a queue is under.
select id, queue, job_id, reserved_by, reserved_at, expires_at, status, ended_at
from cortex.direct_reservation
where queue = :queue and status = 'ACTIVE';

-- name: add [postgres]
-- Reserves a queue for one job. No row means that it is reserved already.
-- Differs: an interval is written otherwise here.
insert into cortex.direct_reservation (id, queue, job_id, reserved_by, expires_at)
values (cast(:id as uuid), :queue, cast(:job_id as uuid), :reserved_by, :now + cast(:ttl_seconds as double precision) * interval '1 second')
on conflict (queue) where status = 'ACTIVE' do nothing
returning id;

-- name: add [sqlite]
-- Reserves a queue for one job. No row means that it is reserved already.
-- Differs: an interval is written otherwise here.
insert into cortex.direct_reservation (id, queue, job_id, reserved_by, reserved_at, expires_at)
values (:id, :queue, :job_id, :reserved_by, :now, :now + cast(round(1000000 * :ttl_seconds) as integer))
on conflict (queue) where status = 'ACTIVE' do nothing
returning id;

-- name: end
-- Ends a reservation that is in force; its status says how. No row means that it was over.
update cortex.direct_reservation
set status = :status, ended_at = :now
where id = :id and status = 'ACTIVE'
returning queue;

-- name: get
-- One reservation.
select id, queue, job_id, reserved_by, reserved_at, expires_at, status, ended_at
from cortex.direct_reservation
where id = :id;

-- name: list
-- All reservations that are in force.
select id, queue, job_id, reserved_by, reserved_at, expires_at, status, ended_at
from cortex.direct_reservation
where status = 'ACTIVE'
order by queue;

-- name: renew [postgres]
-- Its holder is still there. No row means that the reservation is over.
-- Differs: an interval is written otherwise here.
update cortex.direct_reservation
set expires_at = :now + cast(:ttl_seconds as double precision) * interval '1 second'
where id = cast(:id as uuid) and reserved_by = :reserved_by and status = 'ACTIVE'
returning id;

-- name: renew [sqlite]
-- Its holder is still there. No row means that the reservation is over.
-- Differs: an interval is written otherwise here.
update cortex.direct_reservation
set expires_at = :now + cast(round(1000000 * :ttl_seconds) as integer)
where id = :id and reserved_by = :reserved_by and status = 'ACTIVE'
returning id;

-- name: stale
-- Reservations whose holder has fallen silent while their job still waits.
select d.id, d.queue, d.job_id, d.reserved_by
from cortex.direct_reservation d
where d.status = 'ACTIVE'
  and d.expires_at <= :now
  and not exists (select 1 from cortex.job j where j.id = d.job_id and j.status = 'RUNNING')
order by d.id;
