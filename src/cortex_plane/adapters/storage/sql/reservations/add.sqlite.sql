-- Reserves a queue for one job. No row means that it is reserved already.
-- Differs: an interval is written otherwise here.
insert into cortex.direct_reservation (id, queue, job_id, reserved_by, reserved_at, expires_at)
values (:id, :queue, :job_id, :reserved_by, :now, :now + cast(round(1000000 * :ttl_seconds) as integer))
on conflict (queue) where status = 'ACTIVE' do nothing
returning id;
