-- Its holder is still there. No row means that the reservation is over.
-- Differs: an interval is written otherwise here.
update cortex.direct_reservation
set expires_at = :now + cast(round(1000000 * :ttl_seconds) as integer)
where id = :id and reserved_by = :reserved_by and status = 'ACTIVE'
returning id;
