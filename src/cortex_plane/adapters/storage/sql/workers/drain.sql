-- Asks a worker that lives to finish what it has and leave. No row: it does not live, or was asked already.
update cortex.worker
set drain_asked_at = :now, drain_asked_by = :actor, drain_reason = :reason
where id = :id and status = 'LIVE' and drain_asked_at is null
returning id;
