-- Saves one checkpoint that brings no large results, fenced by its run and its predecessor; returns the id if it applied.
-- Differs: a document is text here.
update cortex.job
set checkpoint = :document,
  checkpoint_added = null,
  checkpoint_id = :id,
  cost_cents = cost_cents + iif(checkpoint_id is :id, 0, :cost_cents),
  updated_at = max(:now, updated_at)
where id = :job_id
  and run_id = :run_id
  and (checkpoint_id is :previous_id or checkpoint_id = :id)
returning id;
