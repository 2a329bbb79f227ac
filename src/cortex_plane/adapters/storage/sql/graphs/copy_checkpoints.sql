-- Gives a thread the checkpoints of another.
insert into cortex.graph_checkpoint
  (thread_id, namespace, checkpoint_id, parent_id, run_id, kind, content, channels, metadata, created_at)
select :target_id, namespace, checkpoint_id, parent_id, run_id, kind, content, channels, metadata, :now
from cortex.graph_checkpoint
where thread_id = :source_id
on conflict (thread_id, namespace, checkpoint_id) do nothing;
