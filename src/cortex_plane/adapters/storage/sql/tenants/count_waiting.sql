-- How many jobs of a tenant wait, by state of their queue entries.
select state, count(*) as jobs
from cortex.queue_entry
where tenant_id = :tenant_id
group by state;
