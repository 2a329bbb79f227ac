-- Sets a person's password.
insert into cortex.user_password (user_account_id, hash, changed_at)
values (:id, :hash, :now)
on conflict (user_account_id) do update set hash = excluded.hash, changed_at = excluded.changed_at;
