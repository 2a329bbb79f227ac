-- Where somebody is reached.
select id, user_account_id, channel_type, channel_user_id, created_at
from cortex.channel_mapping
where user_account_id = :user_id
order by channel_type, id;
