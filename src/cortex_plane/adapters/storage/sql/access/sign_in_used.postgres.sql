-- Notes that a cookie was used, once a minute at most.
-- Differs: instants have a type.
update cortex.login_session
set last_used_at = :now
where token_hash = :hash
  and last_used_at < :now - interval '1 minute';
