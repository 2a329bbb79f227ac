-- Removes a schedule, and the record of its slots.
delete from cortex.schedule
where id = :id
returning id;
