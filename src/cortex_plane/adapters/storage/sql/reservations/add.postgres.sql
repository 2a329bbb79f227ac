-- Reserves a queue for one job. No row means that it is reserved already.
-- Differs: an interval is written otherwise here.
insert into cortex.direct_reservation (id, queue, job_id, reserved_by, expires_at)
values (cast(:id as uuid), :queue, cast(:job_id as uuid), :reserved_by, :now + cast(:ttl_seconds as double precision) * interval '1 second')
on conflict (queue) where status = 'ACTIVE' do nothing
returning id;
