-- What was told of one job after a number, in order.
select seq, job_id, run_id, at, kind, data
from cortex.job_event
where job_id = :job_id
  and seq > :after
order by seq
limit :limit;
