-- Gives a waiting job its place. No row means that it no longer waits.
-- Differs: PostgreSQL wants to be told the types.
update cortex.job
set priority = :priority, position = :position, updated_at = greatest(:now, updated_at)
where id = cast(:id as uuid) and status in ('PENDING', 'RETRY')
returning id;
