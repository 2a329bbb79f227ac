-- One row when anybody could get in.
select 1 as found
where exists (
    select 1 from cortex.api_key k where k.revoked_at is null and (k.expires_at is null or k.expires_at > :now)
  )
  or exists (
    select 1
    from cortex.user_password p
    join cortex.user_account u on u.id = p.user_account_id
    join cortex.user_role r on r.user_account_id = u.id
    where u.disabled_at is null
  );
