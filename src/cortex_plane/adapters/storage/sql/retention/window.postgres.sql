-- The next jobs after one of them, oldest first, with what decides how long they are kept.
-- Differs: a function fixes the plan, so that a growing table cannot turn it into a scan.
select id, tenant_id, job_type, status, created_at, finished_at, :now as looked_at
from cortex.jobs_after(cast(:after as uuid), cast(:limit as int))
order by id;
