-- A slot ends. No row means that it had.
update cortex.schedule_run
set status = :status, error_code = :error_code, error_message = :error_message, replaced_by = :replaced_by,
  completed_at = :now
where id = :id and (status = 'pending' or status = 'running')
returning id;
