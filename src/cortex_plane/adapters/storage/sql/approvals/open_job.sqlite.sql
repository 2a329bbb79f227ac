-- Makes a running job wait for approval, fenced by its run id; answers with the times of its request.
-- Differs: how instants are added.
update cortex.job
set status = 'WAITING_FOR_APPROVAL',
  approval_token = :token_hash,
  approval_expires_at = max(:now, updated_at) + cast(round(1000000 * :ttl_seconds) as integer),
  error = null,
  run_id = null,
  worker_id = null,
  claimed_together = null,
  worker_job_id = null,
  cost_cents = cost_cents + :cost_cents,
  checkpoint = coalesce(:checkpoint, checkpoint),
  checkpoint_added = iif(:checkpoint is null, checkpoint_added, null),
  checkpoint_id = coalesce(:checkpoint_id, checkpoint_id),
  updated_at = max(:now, updated_at),
  revision = revision + 1,
  cause = :cause,
  actor = :actor,
  note = :note
where id = :job_id
  and run_id = :run_id
returning session_id, updated_at as created_at, approval_expires_at as expires_at,
  updated_at + cast(round(1000000 * :remind_after_seconds) as integer) as remind_at,
  updated_at + cast(round(1000000 * :escalate_after_seconds) as integer) as escalate_at;
