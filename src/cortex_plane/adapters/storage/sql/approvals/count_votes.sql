-- Counts the approvals of a request: after the vote, in a statement of its own, so that it sees every vote before.
update cortex.approval_request
set votes = (
  select count(*) from cortex.approval_vote v where v.approval_request_id = :id and v.decision = 'approved')
where id = :id
returning votes;
