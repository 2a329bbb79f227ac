-- What these jobs have called, and has not ended.
-- Differs: a list of ids is an array here, so that the index is used.
select id from cortex.job
where parent_id = any (array(select cast(value as uuid) from jsonb_array_elements_text(cast(:ids as jsonb))))
  and status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL');
