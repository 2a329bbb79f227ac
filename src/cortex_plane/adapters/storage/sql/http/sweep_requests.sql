-- Deletes answers that are over.
delete from cortex.http_request
where expires_at <= :now;
