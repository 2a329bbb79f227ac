-- Saves one checkpoint, fenced by its run and its predecessor; one that is there already is the same write repeated.
-- Only on SQLite: a batch is saved one by one in the writer's transaction, and no document is copied into a larger one first.
update cortex.job
set checkpoint = :document,
  checkpoint_id = :id,
  cost_cents = cost_cents + iif(checkpoint_id is :id, 0, :cost_cents),
  updated_at = max(:now, updated_at)
where id = :job_id
  and run_id = :run_id
  and (checkpoint_id is :previous_id or checkpoint_id = :id)
returning id;
