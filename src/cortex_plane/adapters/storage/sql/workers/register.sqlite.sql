-- A worker starts, under an id of its own.
-- Differs: how a lease is added to the time.
insert into cortex.worker
  (id, name, queues, job_types, concurrency, lease_seconds, started_at, heartbeat_at, lease_until)
values (:id, :name, :queues, :job_types, :concurrency, :lease_seconds, :now, :now,
  :now + cast(:lease_seconds * 1000000 as integer))
on conflict (id) do nothing;
