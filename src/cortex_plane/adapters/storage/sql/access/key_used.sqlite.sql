-- Notes that a key was used, once a minute at most.
-- Differs: instants are numbers.
update cortex.api_key
set last_used_at = :now
where hash = :hash
  and (last_used_at is null or last_used_at < :now - 60000000);
