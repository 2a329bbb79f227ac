-- Saves what one checkpoint adds to the one that was written whole, fenced like that; returns the id if it applied.
-- Differs: an addition is text here.
-- A statement of its own: the whole document, which is not named here, is neither read nor checked nor written again.
update cortex.job
set checkpoint_added = :added,
  checkpoint_id = :id,
  cost_cents = cost_cents + iif(checkpoint_id is :id, 0, :cost_cents),
  updated_at = max(:now, updated_at)
where id = :job_id
  and run_id = :run_id
  and (checkpoint_id is :previous_id or checkpoint_id = :id)
returning id;
