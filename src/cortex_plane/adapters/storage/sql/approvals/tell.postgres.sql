-- Makes the jobs that tell people about a request.
-- Differs: a procedure is a function here.
select cortex.notify_approvers(:request_id, :purpose);
