-- Counts one run under a grant that is good for it. No row means that it is not, or no longer.
update cortex.execution_grant
set uses = uses + 1
where id = :id
  and revoked_at is null
  and (expires_at is null or expires_at > :now)
  and (max_uses is null or uses < max_uses)
returning id;
