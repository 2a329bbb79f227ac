-- Declares LOST every worker whose lease has run out. One way, and on the row itself: a heartbeat that came first wins.
update cortex.worker
set status = 'LOST'
where status = 'LIVE' and lease_until < :now and id <> :id
returning id, name;
