-- The newest jobs before :before that have a place in a queue.
select e.job_id as id
from cortex.queue_entry e
where e.job_id < :before
order by e.job_id desc
limit :limit;
