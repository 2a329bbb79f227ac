-- The messages that were sent about a request, whether it is still open, and the time.
select notification_channels, outcome is null as is_open, :now as at
from cortex.approval_request
where id = :id;
