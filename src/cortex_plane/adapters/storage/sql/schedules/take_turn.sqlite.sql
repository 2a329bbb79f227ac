-- One of many looks through the schedules; no row means that somebody did so a moment ago.
-- Differs: an interval is written otherwise here.
update cortex.schedule_reconciler
set reconciled_at = :now
where id = 1 and reconciled_at <= :now - cast(round(1000000 * :rest_seconds) as integer)
returning id;
