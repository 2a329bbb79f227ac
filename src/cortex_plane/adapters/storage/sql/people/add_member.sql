-- Puts somebody into a group. No row: they are in it.
insert into cortex.group_member (group_id, user_account_id)
values (:group_id, :user_id)
on conflict (group_id, user_account_id) do nothing
returning group_id;
