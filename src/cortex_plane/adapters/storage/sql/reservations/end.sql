-- Ends a reservation that is in force; its status says how. No row means that it was over.
update cortex.direct_reservation
set status = :status, ended_at = :now
where id = :id and status = 'ACTIVE'
returning queue;
