-- Waits until every claim that is under way has ended, and lets none begin until this transaction has ended.
-- Differs: SQLite has one writer.
select pg_advisory_xact_lock(1129270868, 0);
