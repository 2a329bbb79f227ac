-- Some threads that have checkpoints, in the order of their ids.
select distinct thread_id
from cortex.graph_checkpoint
where thread_id > :after
order by thread_id
limit :limit;
