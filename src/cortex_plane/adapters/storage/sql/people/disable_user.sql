-- From now on the account may do nothing. No row: that changed nothing.
update cortex.user_account
set disabled_at = :now
where id = :id
  and disabled_at is null
returning id;
