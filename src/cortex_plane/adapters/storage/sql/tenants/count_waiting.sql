-- How many jobs of a tenant wait, by state of their queue entries, without the plane's own.
select state, count(*) as jobs
from cortex.queue_entry
where tenant_id = :tenant_id and queue <> 'cortex'
group by state;
