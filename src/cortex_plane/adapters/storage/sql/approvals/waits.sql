-- Whether a job still waits for this request.
select 1 as waits
from cortex.job
where id = :job_id
  and status = 'WAITING_FOR_APPROVAL'
  and approval_token = :token_hash;
