-- A slot that was written down before is left out. No row means that it has begun, or ended.
update cortex.schedule_run
set status = 'skipped', reason = :reason, completed_at = :now
where id = :id and status = 'pending'
returning id;
