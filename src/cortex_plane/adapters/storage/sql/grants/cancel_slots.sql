-- The slots under a grant that have not ended, end.
update cortex.schedule_run
set status = 'error', error_code = 'grant_revoked', error_message = :message, completed_at = :now
where schedule_id in (select id from cortex.schedule where grant_id = :grant_id)
  and (status = 'pending' or status = 'running')
returning id;
