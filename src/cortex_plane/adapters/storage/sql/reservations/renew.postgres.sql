-- Its holder is still there. No row means that the reservation is over.
-- Differs: an interval is written otherwise here.
update cortex.direct_reservation
set expires_at = :now + cast(:ttl_seconds as double precision) * interval '1 second'
where id = cast(:id as uuid) and reserved_by = :reserved_by and status = 'ACTIVE'
returning id;
