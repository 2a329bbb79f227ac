-- The newest groups of a tenant before :before, and how many members of each stand where.
-- Differs: the fences (offset 0, limit 1) keep every join a look-up by index, so that a page never reads all jobs.
with page as materialized (
  select id, tenant_id, name, mode, on_failure, callback, callback_job_id, created_by, created_at, finished_at, stopping
  from cortex.job_group
  where tenant_id = :tenant_id and id < :before
  order by id desc
  limit :limit
)
select g.id, g.tenant_id, g.name, g.mode, g.on_failure, g.callback, g.callback_job_id, g.created_by, g.created_at, g.finished_at,
  g.stopping, m.waiting, m.held, m.under_way, m.completed, m.failed, m.cancelled
from page g
cross join lateral (
  select
    count(*) filter (where j.status = 'PENDING' and e.job_id is null and j.retry_of is null) as waiting,
    count(*) filter (where e.job_id is not null) as held,
    count(*) filter (where (j.status = 'PENDING' and e.job_id is null and j.retry_of is not null)
      or j.status in ('RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')) as under_way,
    count(*) filter (where j.status = 'COMPLETED') as completed,
    count(*) filter (where j.status = 'FAILED') as failed,
    count(*) filter (where j.status = 'CANCELLED') as cancelled
  from (select id, group_id, status, retry_of from cortex.job where group_id = g.id offset 0) j
  left join lateral (select q.job_id from cortex.queue_entry q where q.job_id = j.id and q.state = 'held' limit 1) e on true
  left join lateral (select r.id from cortex.job r where r.retry_of = j.id and r.group_id = j.group_id limit 1) again on true
  where again.id is null) m
order by g.id desc;
