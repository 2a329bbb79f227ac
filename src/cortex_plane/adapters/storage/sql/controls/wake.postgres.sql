-- Tells every worker to look again.
-- Differs: on SQLite any commit does.
select pg_notify('cortex', 'all:');
