-- Signs a browser in.
-- Differs: instants have a type.
insert into cortex.login_session (token_hash, user_account_id, expires_at)
values (:hash, :user_id, :now + make_interval(secs => cast(:ttl_seconds as double precision)));
