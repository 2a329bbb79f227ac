-- One checkpoint of a graph.
select thread_id, namespace, checkpoint_id, parent_id, kind, content, channels, metadata
from cortex.graph_checkpoint
where thread_id = :thread_id
  and namespace = :namespace
  and checkpoint_id = :checkpoint_id;
