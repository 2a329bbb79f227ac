-- One conversation.
select id, user_account_id, agent_id, channel, created_at
from cortex.session
where id = :id;
