-- Gives an account back what it may do. No row: that changed nothing.
update cortex.user_account
set disabled_at = null
where id = :id
  and disabled_at is not null
returning id;
