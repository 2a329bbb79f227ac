-- One of many looks through the schedules; no row means that somebody did so a moment ago.
-- Differs: an interval is written otherwise here.
update cortex.schedule_reconciler
set reconciled_at = :now
where id = 1 and reconciled_at <= :now - cast(:rest_seconds as double precision) * interval '1 second'
returning id;
