-- The jobs of the newest :limit lines of history that were submitted at :since or later, oldest first.
-- Differs: the fence (offset 0) keeps the join a look-up by index, so that it never reads all jobs.
select g.job_id as id, j.tenant_id, j.job_type, j.queue, j.status, g.created_at, g.started_at, g.ended_at, g.changes
from (
  select h.job_id, count(*) as changes, min(h.created_at) as created_at,
    min(case when h.new_status = 'RUNNING' then h.created_at end) as started_at,
    max(case when h.new_status in ('COMPLETED', 'FAILED', 'CANCELLED') then h.created_at end) as ended_at
  from (
    select job_id, new_status, created_at
    from cortex.job_history
    where job_id >= :since
    order by job_id desc, revision desc
    limit :limit) h
  group by h.job_id) g
cross join lateral (select tenant_id, job_type, queue, status from cortex.job where id = g.job_id offset 0) j
order by g.job_id;
