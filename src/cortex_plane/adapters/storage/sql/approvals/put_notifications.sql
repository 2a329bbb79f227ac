-- Keeps the messages that were sent about a request.
update cortex.approval_request
set notification_channels = :channels
where id = :id;
