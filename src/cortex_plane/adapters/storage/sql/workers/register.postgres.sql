-- A worker starts, under an id of its own.
-- Differs: how a lease is added to the time.
insert into cortex.worker (id, name, queues, job_types, concurrency, lease_seconds, lease_until)
values (cast(:id as uuid), :name, cast(:queues as jsonb), cast(:job_types as jsonb), :concurrency, :lease_seconds,
  cortex.now() + cast(:lease_seconds as double precision) * interval '1 second')
on conflict (id) do nothing;
