-- Lets a held member wait as any other job does.
-- Differs: a function wakes the workers, and settles the serial key under its lock.
select cortex.let_go(cast(:job_id as uuid)) as let_go;
