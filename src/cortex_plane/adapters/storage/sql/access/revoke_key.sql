-- Takes a key back. No row means that it is unknown, or was taken back already.
update cortex.api_key
set revoked_at = :now
where id = :id and revoked_at is null
returning id;
