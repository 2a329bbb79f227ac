-- A slot that was left out is wanted after all. No row means that it was not left out.
update cortex.schedule_run
set status = 'pending', reason = null, completed_at = null, origin = 'backfill', job_id = :job_id
where id = :id and status = 'skipped'
returning id;
