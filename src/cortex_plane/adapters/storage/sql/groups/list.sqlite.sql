-- The newest groups of a tenant before :before, and how many members of each stand where.
-- Differs: here the joins need no fences.
with page as (
  select id, tenant_id, name, mode, on_failure, callback, callback_job_id, created_by, created_at, finished_at, stopping
  from cortex.job_group
  where tenant_id = :tenant_id and id < :before
  order by id desc
  limit :limit
), member as (
  select j.group_id,
    count(*) filter (where j.status = 'PENDING' and e.job_id is null and j.retry_of is null) as waiting,
    count(*) filter (where e.job_id is not null) as held,
    count(*) filter (where (j.status = 'PENDING' and e.job_id is null and j.retry_of is not null)
      or j.status in ('RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')) as under_way,
    count(*) filter (where j.status = 'COMPLETED') as completed,
    count(*) filter (where j.status = 'FAILED') as failed,
    count(*) filter (where j.status = 'CANCELLED') as cancelled
  from cortex.job j
  left join cortex.queue_entry e on e.job_id = j.id and e.state = 'held'
  where j.group_id in (select id from page)
    and not exists (select 1 from cortex.job r where r.retry_of = j.id and r.group_id = j.group_id)
  group by j.group_id
)
select page.id, page.tenant_id, page.name, page.mode, page.on_failure, page.callback, page.callback_job_id, page.created_by,
  page.created_at, page.finished_at, page.stopping, m.waiting, m.held, m.under_way, m.completed, m.failed, m.cancelled
from page
left join member m on m.group_id = page.id
order by page.id desc;
