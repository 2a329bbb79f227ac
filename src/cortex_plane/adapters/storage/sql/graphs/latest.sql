-- The newest checkpoint of a graph.
select thread_id, namespace, checkpoint_id, parent_id, kind, content, channels, metadata
from cortex.graph_checkpoint
where thread_id = :thread_id
  and namespace = :namespace
order by checkpoint_id desc
limit 1;
