-- Puts a request into the inboxes of a group.
insert into cortex.approval_approver (approval_request_id, user_group_id, escalated)
values (:request_id, :group_id, :escalated);
