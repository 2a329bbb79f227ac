-- Whose address this is.
select u.id, u.name, u.display_name, u.email, u.created_at, u.disabled_at
from cortex.channel_mapping c
join cortex.user_account u on u.id = c.user_account_id
where c.channel_type = :channel_type
  and c.channel_user_id = :channel_user_id;
