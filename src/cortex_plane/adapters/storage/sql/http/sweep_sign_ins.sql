-- Deletes sign-ins that are over.
delete from cortex.login_session
where expires_at <= :now;
