-- Gives a waiting job its place. No row means that it no longer waits, or has moved on from the revision that was seen.
-- Differs: PostgreSQL wants to be told the types.
update cortex.job
set priority = :priority,
  position = :position,
  revision = revision + 1,
  updated_at = greatest(:now, updated_at)
where id = cast(:id as uuid)
  and status in ('PENDING', 'RETRY')
  and revision = coalesce(cast(:revision as bigint), revision)
returning id;
