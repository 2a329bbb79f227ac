-- How many jobs of each queue wait for people, and since when the first does.
-- Differs: instants are numbers.
select j.queue, 'waiting_for_approval' as state, count(*) as jobs, (:now - min(a.created_at)) / 1000000.0 as seconds
from cortex.approval_request a
cross join cortex.job j
where a.outcome is null
  and j.id = a.job_id
group by j.queue;
