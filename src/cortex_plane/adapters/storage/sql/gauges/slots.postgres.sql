-- How many schedules should have begun a slot by now, and how late the latest is.
-- Differs: instants have a type.
select count(*) as slots, cast(extract(epoch from :now - min(next_run_at)) as double precision) as seconds
from cortex.schedule
where enabled
  and next_run_at < :now - make_interval(secs => cast(:late_seconds as double precision));
