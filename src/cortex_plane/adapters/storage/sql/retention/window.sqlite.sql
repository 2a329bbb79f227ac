-- The next jobs after one of them, oldest first, with what decides how long they are kept.
-- Differs: PostgreSQL needs a function to fix the plan.
select j.id, j.tenant_id, j.job_type, j.status, j.created_at, j.finished_at, :now as looked_at
from cortex.job j
where j.id > :after
order by j.id
limit :limit;
