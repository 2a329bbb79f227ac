-- Makes ready what has fallen due, at most :limit entries, and returns one row for each.
-- Differs: a trigger settles the serial keys.
update cortex.queue_entry
set state = iif(serial_key is null, 'ready', 'blocked')
where state = 'later'
  and job_id in (
    select job_id from cortex.queue_entry
    where state = 'later' and due_at <= :now
    order by due_at
    limit :limit)
returning 1 as promoted;
