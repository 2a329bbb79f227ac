-- Applies a batch of transitions out of RUNNING, each fenced by its run id, and returns the ids that applied.
-- Differs: a batch is jsonb_each here.
update cortex.job as j
set status = c.value ->> 'status',
  output = nullif(c.value -> 'output', 'null'),
  error = nullif(c.value -> 'error', 'null'),
  error_message = c.value ->> 'error_message',
  wait_reason = c.value ->> 'wait_reason',
  next_retry_at = iif(c.value ->> 'status' = 'RETRY', :now + cast(round(1000000 * (c.value ->> 'delay_seconds')) as integer), null),
  worker_job_id = null,
  retry_count = c.value ->> 'retry_count',
  crash_count = c.value ->> 'crash_count',
  cost_cents = j.cost_cents + coalesce(c.value ->> 'cost_cents', 0),
  run_id = null,
  worker_id = null,
  claimed_together = null,
  updated_at = max(:now, j.updated_at),
  finished_at = iif(c.value ->> 'status' = 'RETRY', null, max(:now, j.updated_at)),
  revision = j.revision + 1,
  cause = c.value ->> 'cause',
  actor = :actor,
  note = nullif(c.value -> 'note', 'null'),
  checkpoint = coalesce(c.value ->> 'checkpoint', j.checkpoint),
  checkpoint_added = iif(c.value ->> 'checkpoint' is null, j.checkpoint_added, null),
  checkpoint_id = coalesce(c.value ->> 'checkpoint_id', j.checkpoint_id)
from jsonb_each(:batch) c
where j.id = c.value ->> 'job_id'
  and j.run_id = c.value ->> 'run_id'
returning id;
