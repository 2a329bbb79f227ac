-- Makes ready what has fallen due, at most :limit entries, and returns how many.
-- Differs: a function settles the serial keys under their locks.
select cortex.promote_due(cast(:limit as int)) as promoted;
