-- Saves a batch of checkpoints, at most one for each job, each fenced by its run id; returns the ids that applied.
-- Differs: a function fixes the plan, so that a growing table cannot turn it into a scan.
select cortex.save_checkpoints(cast(:batch as jsonb)) as id;
