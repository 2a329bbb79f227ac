-- The newest entry, if its number is higher, and which transactions must have ended before nothing can appear below it.
-- Differs: on SQLite whatever is visible is complete.
select seq, cast(cast(pg_current_xact_id() as text) as bigint) as horizon,
  cast(cast(pg_snapshot_xmin(pg_current_snapshot()) as text) as bigint) as oldest, :now as at
from (select seq from cortex.audit_log where seq > :after order by seq desc limit 1) newest;
