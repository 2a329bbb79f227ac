-- Ends a job that waited for this request.
-- Differs: the name of the function that takes the later of two instants.
update cortex.job
set status = 'FAILED',
  approval_token = null,
  approval_expires_at = null,
  error = :error,
  error_message = :error_message,
  updated_at = max(:now, updated_at),
  finished_at = max(:now, updated_at),
  revision = revision + 1,
  cause = :cause,
  actor = :actor,
  note = :note
where id = :job_id
  and status = 'WAITING_FOR_APPROVAL'
  and approval_token = :token_hash
returning updated_at as at;
