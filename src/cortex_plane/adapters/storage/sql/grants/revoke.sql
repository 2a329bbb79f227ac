-- Takes a grant back. No row means that it was.
update cortex.execution_grant
set revoked_at = :now, revoked_by = :actor, revoke_reason = :reason
where id = :id and revoked_at is null
returning id;
