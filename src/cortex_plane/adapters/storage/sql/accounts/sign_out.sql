-- Signs a person out everywhere.
delete from cortex.login_session
where user_account_id = :id;
