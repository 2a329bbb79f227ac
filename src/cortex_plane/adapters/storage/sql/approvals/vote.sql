-- Records a vote.
insert into cortex.approval_vote (approval_request_id, user_account_id, decision, reason, edited_details, door, created_at)
values (:request_id, :user_id, :decision, :reason, :edited_details, :door, :now);
