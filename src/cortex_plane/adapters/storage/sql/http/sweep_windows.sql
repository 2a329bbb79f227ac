-- Deletes windows of time that are over.
delete from cortex.rate_limit
where window_until <= :now;
