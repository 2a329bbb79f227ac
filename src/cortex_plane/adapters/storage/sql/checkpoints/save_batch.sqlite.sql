-- Saves a batch of checkpoints, at most one for each job, each fenced by its run and its predecessor.
-- Only on SQLite: the documents are bytes one after the other, so that none is copied into a larger one or parsed on its way.
insert into cortex.checkpoint_to_save (job_id, run_id, id, previous_id, cost_cents, document, added, at)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4,
  iif(value ->> 7, null, cast(substr(:documents, value ->> 5, value ->> 6) as text)),
  iif(value ->> 7, cast(substr(:documents, value ->> 5, value ->> 6) as text), null), :now
from jsonb_each(:batch);
