-- What these jobs have called, and has not ended.
-- Differs: a list of ids is JSON here.
select id from cortex.job
where parent_id in (select value from json_each(:ids))
  and status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL');
