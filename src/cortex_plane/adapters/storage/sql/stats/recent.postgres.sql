-- The jobs of the newest :limit lines of history that were submitted at :since or later, oldest first.
-- Differs: the fence (offset 0) keeps the join a look-up by index, so that it never reads all jobs.
select seen.job_id as id, j.tenant_id, j.job_type, j.queue, j.status, seen.created_at, seen.started_at, seen.ended_at, seen.changes
from (
  select newest.job_id, count(*) as changes, min(newest.created_at) as created_at,
    min(case when newest.new_status = 'RUNNING' then newest.created_at end) as started_at,
    max(case when newest.new_status in ('COMPLETED', 'FAILED', 'CANCELLED') then newest.created_at end) as ended_at
  from (
    select job_id, new_status, created_at
    from cortex.job_history
    where job_id >= :since
    order by job_id desc, revision desc
    limit :limit) newest
  group by newest.job_id) seen
cross join lateral (select tenant_id, job_type, queue, status from cortex.job where id = seen.job_id offset 0) j
order by seen.job_id;
