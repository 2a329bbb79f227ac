-- The children of a job that end with it, and have not ended.
select id from cortex.job
where parent_id = :parent_id
  and cancel_with_parent
  and status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL');
