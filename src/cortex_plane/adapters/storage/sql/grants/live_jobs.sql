-- Every job that has not ended of a grant's schedules, and every run under it.
select j.id from cortex.job j
where j.schedule_id in (select s.id from cortex.schedule s where s.grant_id = :grant_id)
  and j.status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
union
select j.id from cortex.job j
where j.request_id in (select r.id from cortex.execution_request r where r.grant_id = :grant_id and r.finished_at is null)
  and j.status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL');
