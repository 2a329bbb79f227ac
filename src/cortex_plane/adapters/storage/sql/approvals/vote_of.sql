-- How somebody has voted.
select decision
from cortex.approval_vote
where approval_request_id = :request_id
  and user_account_id = :user_id;
