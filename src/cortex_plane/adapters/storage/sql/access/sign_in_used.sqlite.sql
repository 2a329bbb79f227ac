-- Notes that a cookie was used, once a minute at most.
-- Differs: instants are numbers.
update cortex.login_session
set last_used_at = :now
where token_hash = :hash
  and last_used_at < :now - 60000000;
