-- The member whose turn is next.
select e.job_id
from cortex.job j
join cortex.queue_entry e on e.job_id = j.id
where j.group_id = :id
  and e.state = 'held'
order by j.id
limit 1;
