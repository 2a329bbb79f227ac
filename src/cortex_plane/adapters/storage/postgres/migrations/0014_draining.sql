-- An operator may ask a worker, wherever it runs, to finish what it has and leave. It hears of it at its next heartbeat.
alter table cortex.worker
  add column drain_asked_at timestamptz,
  add column drain_asked_by text,
  add column drain_reason text;
comment on column cortex.worker.drain_asked_at is
  'When somebody asked it to finish what it has and to take nothing more. STOPPED with this set: it was drained.';
comment on column cortex.worker.drain_asked_by is 'Who asked for that first.';
comment on column cortex.worker.drain_reason is 'Why, in their words.';
