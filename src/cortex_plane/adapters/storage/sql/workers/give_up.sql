-- A worker that cannot trust its own lease any more gives it up, so that others rescue its runs at once.
update cortex.worker
set status = 'LOST'
where id = :id and status = 'LIVE'
returning id;
