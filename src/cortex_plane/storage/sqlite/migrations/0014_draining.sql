-- An operator may ask a worker, wherever it runs, to finish what it has and leave. It hears of it at its next heartbeat.
alter table worker add column drain_asked_at integer;
alter table worker add column drain_asked_by text;
alter table worker add column drain_reason text;
