-- Applies a batch of transitions out of RUNNING, each fenced by its run id, and returns the ids that applied.
-- Differs: a function fixes the plan, so that a growing table cannot turn it into a scan.
select cortex.finish(:actor, cast(:batch as jsonb)) as id;
