-- An operator may ask a worker, wherever it runs, to finish what it has and leave. It hears of it at its next heartbeat.
alter table cortex.worker
  add column drain_asked_at timestamptz,
  add column drain_asked_by text,
  add column drain_reason text;
comment on column cortex.worker.drain_asked_at is
  'When somebody asked it to finish what it has and to take nothing more. STOPPED with this set: it was drained.';
comment on column cortex.worker.drain_asked_by is 'Who asked for that first.';
comment on column cortex.worker.drain_reason is 'Why, in their words.';

-- Renews the lease of a worker that is LIVE, and says whether it is asked to leave; null when it is not LIVE any more. Where somebody
-- else has locked its row, the beat is noted beside it, under the lock of its judgement: while cortex.declare_lost holds that, the beat
-- waits for the row, so that no beat is acknowledged to a worker that is being declared LOST.
create function cortex.beat(_worker uuid) returns boolean language plpgsql set jit = off as $$
declare
  _draining boolean;
begin
  update cortex.worker
    set heartbeat_at = cortex.now(), lease_until = cortex.now() + lease_seconds * interval '1 second'
    where id = (select w.id from cortex.worker w where w.id = _worker and w.status = 'LIVE' for no key update skip locked)
      and status = 'LIVE'
    returning drain_asked_at is not null into _draining;
  if found then
    delete from cortex.worker_beat where worker_id = _worker;
    return _draining;
  end if;
  if not pg_try_advisory_xact_lock(1129270870, hashtext(_worker::text)) then
    update cortex.worker
      set heartbeat_at = cortex.now(), lease_until = cortex.now() + lease_seconds * interval '1 second'
      where id = _worker and status = 'LIVE'
      returning drain_asked_at is not null into _draining;
    return _draining;
  end if;
  insert into cortex.worker_beat (worker_id, lease_until)
    select id, cortex.now() + lease_seconds * interval '1 second' from cortex.worker where id = _worker and status = 'LIVE';
  if not found then
    return null;
  end if;
  select drain_asked_at is not null into _draining from cortex.worker where id = _worker;
  return _draining;
end $$;

-- Declares LOST every worker but one whose lease has run out. A worker whose row somebody has locked is left for the next look. First
-- the locks, then, in a statement of its own, the beats that may stand beside the rows.
create function cortex.declare_lost(_me uuid) returns table (id uuid, name text) language plpgsql set jit = off as $$
declare
  _judged uuid[];
begin
  _judged := array(
    select w.id from cortex.worker w
    where w.status = 'LIVE' and w.lease_until < cortex.now() and w.id <> _me
    for update skip locked);
  _judged := array(select j.id from unnest(_judged) as j(id) where pg_try_advisory_xact_lock(1129270870, hashtext(j.id::text)));
  return query
    update cortex.worker w
    set status = 'LOST'
    where w.id = any (_judged) and w.status = 'LIVE' and w.lease_until < cortex.now()
      and not exists (select 1 from cortex.worker_beat b where b.worker_id = w.id and b.lease_until >= cortex.now())
    returning w.id, w.name;
end $$;
