-- What a slot has started. No row means that the slot has ended meanwhile.
update cortex.schedule_run
set run_id = :run_id, trace_id = :trace_id
where id = :id and status = 'running'
returning id;
