-- Takes somebody out of a group. No row: they are not in it.
delete from cortex.group_member
where group_id = :group_id
  and user_account_id = :user_id
returning group_id;
