-- Who is in a group, by name.
select u.id, u.name, u.display_name, u.email, u.created_at, u.disabled_at
from cortex.group_member m
join cortex.user_account u on u.id = m.user_account_id
where m.group_id = :group_id
order by u.name;
