-- Workers that live, and the latest that do not.
select id, name, status, queues, job_types, concurrency, started_at, heartbeat_at, lease_until, ended_at,
  drain_asked_at, drain_asked_by, drain_reason
from cortex.worker
order by (status = 'LIVE') desc, started_at desc
limit :limit;
