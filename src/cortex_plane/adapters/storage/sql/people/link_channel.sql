-- Links an address to a person. No row: somebody has it.
insert into cortex.channel_mapping (id, user_account_id, channel_type, channel_user_id, created_at)
values (:id, :user_id, :channel_type, :channel_user_id, :now)
on conflict (channel_type, channel_user_id) do nothing
returning id;
