-- What stands in the way of deleting these jobs.
-- Differs: a function fixes the plan, so that a growing table cannot turn it into a scan.
select id, predecessor, needed
from cortex.held_back(cast(:job_ids as uuid[]))
order by id;
