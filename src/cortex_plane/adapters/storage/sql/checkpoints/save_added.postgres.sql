-- Saves what one checkpoint adds to the one that was written whole, fenced like that; returns the id if it applied.
-- Differs: an addition is json here.
-- A statement of its own: the whole document, which is not named here, is neither read nor checked nor written again.
update cortex.job
set checkpoint_added = cast(:added as json),
  checkpoint_id = :id,
  cost_cents = cost_cents + case when checkpoint_id = :id then 0 else cast(:cost_cents as bigint) end,
  updated_at = greatest(cortex.now(), updated_at)
where id = :job_id
  and run_id = :run_id
  and (checkpoint_id is not distinct from cast(:previous_id as uuid) or checkpoint_id = :id)
returning id;
