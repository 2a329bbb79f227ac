-- Keeps the hash of a token before its plaintext is used, in place of the addressee's earlier one. No row: it is closed.
-- Differs: the lock, so that whoever closes the request finds every token.
with asked as (
  select id from cortex.approval_request where id = :request_id and outcome is null for share
)
insert into cortex.approval_token (token_hash, approval_request_id, user_account_id, channel_type, channel_user_id)
select cast(:token_hash as text), id, cast(:user_id as uuid), cast(:channel_type as text), cast(:channel_user_id as text)
from asked
on conflict (approval_request_id, user_account_id, channel_type, channel_user_id)
  do update set token_hash = excluded.token_hash, created_at = excluded.created_at
returning token_hash;
