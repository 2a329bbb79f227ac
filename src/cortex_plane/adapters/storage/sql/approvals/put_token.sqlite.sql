-- Keeps the hash of a token before its plaintext is used, in place of the addressee's earlier one. No row: it is closed.
-- Differs: there is nothing to lock.
insert into cortex.approval_token (token_hash, approval_request_id, user_account_id, channel_type, channel_user_id, created_at)
select :token_hash, id, :user_id, :channel_type, :channel_user_id, :now
from cortex.approval_request
where id = :request_id and outcome is null
on conflict (approval_request_id, user_account_id, channel_type, channel_user_id)
  do update set token_hash = excluded.token_hash, created_at = excluded.created_at
returning token_hash;
