-- Renews the lease of a worker that is still LIVE. No row: it was declared LOST and must stop its jobs.
-- Differs: how a lease is added to the time.
update cortex.worker
set heartbeat_at = :now, lease_until = :now + cast(lease_seconds * 1000000 as integer)
where id = :id and status = 'LIVE'
returning drain_asked_at is not null as draining;
