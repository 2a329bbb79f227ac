-- Who has voted how, in the order of the votes.
select v.user_account_id, coalesce(u.display_name, u.name) as name, v.decision, v.reason, v.door, v.created_at
from cortex.approval_vote v
join cortex.user_account u on u.id = v.user_account_id
where v.approval_request_id = :id
order by v.created_at, v.user_account_id;
