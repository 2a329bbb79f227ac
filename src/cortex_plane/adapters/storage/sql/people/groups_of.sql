-- The groups that somebody is in.
select group_id
from cortex.group_member
where user_account_id = :user_id;
