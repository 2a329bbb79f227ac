-- Deletes the checkpoints of a thread.
delete from cortex.graph_checkpoint
where thread_id = :thread_id;
