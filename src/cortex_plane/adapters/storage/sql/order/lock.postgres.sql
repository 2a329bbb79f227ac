-- One move at a time: two that divide the same gap would meet in the middle.
-- Differs: SQLite has one writer.
select pg_advisory_xact_lock(1129270868, 2);
