-- How many jobs of each queue wait for people, and since when the first does.
-- Differs: instants have a type.
select j.queue, 'waiting_for_approval' as state, count(*) as jobs,
  cast(extract(epoch from :now - min(a.created_at)) as double precision) as seconds
from cortex.approval_request a
cross join lateral (select queue from cortex.job where id = a.job_id limit 1) j
where a.outcome is null
group by j.queue;
