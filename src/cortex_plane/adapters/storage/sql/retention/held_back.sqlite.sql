-- What stands in the way of deleting these jobs: that they are needed, or that the job which they retry is still there.
-- Differs: a list is json_each here.
with recursive chain (first_id, id, status) as (
  select j.id, j.id, j.status from json_each(:job_ids) w cross join cortex.job j on j.id = w.value
  union all
  select c.first_id, r.id, r.status from chain c cross join cortex.job r on r.retry_of = c.id
)
select j.id, p.id as predecessor,
  j.id in (select first_id from chain where status not in ('COMPLETED', 'FAILED', 'CANCELLED'))
  or exists (
    select 1 from cortex.job c
    where c.parent_id = j.id and c.status not in ('COMPLETED', 'FAILED', 'CANCELLED'))
  or exists (
    select 1 from cortex.job c
    where c.id = j.parent_id and c.status not in ('COMPLETED', 'FAILED', 'CANCELLED'))
  or exists (select 1 from cortex.job_group g where g.id = j.group_id and g.finished_at is null)
  or exists (
    select 1 from cortex.job m
    where m.group_id = j.group_id and m.status not in ('COMPLETED', 'FAILED', 'CANCELLED')) as needed
from json_each(:job_ids) w
cross join cortex.job j on j.id = w.value
left join cortex.job p on p.id = j.retry_of
order by j.id;
