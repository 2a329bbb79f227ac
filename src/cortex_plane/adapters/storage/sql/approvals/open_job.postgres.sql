-- Makes a running job wait for approval, fenced by its run id; answers with the times of its request.
-- Differs: how instants are added.
update cortex.job
set status = 'WAITING_FOR_APPROVAL',
  approval_token = :token_hash,
  approval_expires_at = greatest(:now, updated_at) + cast(:ttl_seconds as double precision) * interval '1 second',
  error = null,
  run_id = null,
  worker_id = null,
  claimed_together = null,
  worker_job_id = null,
  cost_cents = cost_cents + cast(:cost_cents as bigint),
  checkpoint = coalesce(cast(:checkpoint as json), checkpoint),
  checkpoint_added = case when cast(:checkpoint as json) is null then checkpoint_added end,
  checkpoint_id = coalesce(cast(:checkpoint_id as uuid), checkpoint_id),
  updated_at = greatest(:now, updated_at),
  revision = revision + 1,
  cause = :cause,
  actor = :actor,
  note = :note
where id = :job_id
  and run_id = :run_id
returning session_id, updated_at as created_at, approval_expires_at as expires_at,
  updated_at + cast(:remind_after_seconds as double precision) * interval '1 second' as remind_at,
  updated_at + cast(:escalate_after_seconds as double precision) * interval '1 second' as escalate_at;
