-- The request that a token is for, and whose it is.
select approval_request_id, user_account_id
from cortex.approval_token
where token_hash = :token_hash;
