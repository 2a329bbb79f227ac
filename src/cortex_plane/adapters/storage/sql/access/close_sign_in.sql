-- Signs a browser out.
delete from cortex.login_session
where token_hash = :hash
returning token_hash;
