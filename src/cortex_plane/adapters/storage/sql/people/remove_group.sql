-- Removes a group. No row: there is none.
delete from cortex.user_group
where id = :id
returning id;
