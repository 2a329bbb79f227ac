-- The newest requests of a job before :before.
select id
from cortex.approval_request
where job_id = :job_id
  and id < :before
  and (outcome is null or not cast(:open_only as boolean))
order by id desc
limit :limit;
