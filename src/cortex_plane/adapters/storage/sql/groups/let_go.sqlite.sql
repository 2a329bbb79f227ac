-- Lets a held member wait as any other job does.
-- Differs: a trigger settles the serial key, and any commit wakes the workers.
update cortex.queue_entry
set state = case when due_at > :now then 'later' when serial_key is not null then 'blocked' else 'ready' end
where job_id = :job_id and state = 'held'
returning 1 as let_go;
