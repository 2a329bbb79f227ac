-- How many schedules should have begun a slot by now, and how late the latest is.
-- Differs: instants are numbers.
select count(*) as slots, (:now - min(next_run_at)) / 1000000.0 as seconds
from cortex.schedule
where enabled = 1
  and next_run_at < :now - cast(:late_seconds * 1000000 as integer);
