-- The jobs of the newest :limit lines of history that were submitted at :since or later, oldest first.
-- Differs: here the join needs no fence.
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
join cortex.job j on j.id = seen.job_id
order by seen.job_id;
