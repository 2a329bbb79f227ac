-- The member that failed for good first.
select j.id
from cortex.job j
where j.group_id = :id
  and j.status = 'FAILED'
  and not exists (select 1 from cortex.job r where r.retry_of = j.id and r.group_id = :id)
order by j.finished_at, j.id
limit 1;
