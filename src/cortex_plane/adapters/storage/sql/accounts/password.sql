-- The hash of a person's password, if they may sign in.
select p.hash
from cortex.user_password p
join cortex.user_account u on u.id = p.user_account_id
where p.user_account_id = :id
  and u.disabled_at is null;
