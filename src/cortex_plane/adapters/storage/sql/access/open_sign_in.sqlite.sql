-- Signs a browser in.
-- Differs: instants are numbers.
insert into cortex.login_session (token_hash, user_account_id, created_at, last_used_at, expires_at)
values (:hash, :user_id, :now, :now, :now + cast(:ttl_seconds * 1000000 as integer));
