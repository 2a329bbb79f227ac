-- A worker leaves in order, with no run left open.
update cortex.worker
set status = 'STOPPED', ended_at = :now
where id = :id and status = 'LIVE'
returning id;
