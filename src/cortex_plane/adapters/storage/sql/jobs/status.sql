-- How one job stands: what a caller who waits for its result asks, again and again.
select status, output, error, error_message
from cortex.job
where id = :id;
