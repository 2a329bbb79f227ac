-- Puts a request into the inbox of one person.
insert into cortex.approval_approver (approval_request_id, user_account_id, escalated)
values (:request_id, :user_id, :escalated);
