-- Keeps the conversation that starts jobs. The same a second time changes nothing.
insert into cortex.session (id, user_account_id, agent_id, channel, created_at)
values (:id, :user_id, :agent_id, :channel, :now)
on conflict (id) do nothing;
