-- Makes the jobs that tell people about a request.
-- Differs: a procedure is a view with a trigger here.
insert into approval_to_tell values (:request_id, :purpose, :now);
