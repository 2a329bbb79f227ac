-- One group, and how many of its members stand where. A member that was retried stands where its last retry does.
select g.id, g.tenant_id, g.name, g.mode, g.on_failure, g.callback, g.callback_job_id, g.created_by, g.created_at, g.finished_at,
  g.stopping, m.waiting, m.held, m.under_way, m.completed, m.failed, m.cancelled
from cortex.job_group g
left join (
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
  where j.group_id = :id
    and not exists (select 1 from cortex.job r where r.retry_of = j.id and r.group_id = :id)
  group by j.group_id
) m on m.group_id = g.id
where g.id = :id;
