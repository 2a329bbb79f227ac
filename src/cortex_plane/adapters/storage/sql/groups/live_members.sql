-- Every member of a group that has not ended.
select id from cortex.job
where group_id = :id
  and status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL');
