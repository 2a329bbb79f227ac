-- Renews the lease of a worker that is still LIVE. No row: it was declared LOST and must stop its jobs.
-- Differs: how a lease is added to the time.
update cortex.worker
set heartbeat_at = cortex.now(), lease_until = cortex.now() + lease_seconds * interval '1 second'
where id = cast(:id as uuid) and status = 'LIVE'
returning drain_asked_at is not null as draining;
