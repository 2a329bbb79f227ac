-- Deletes what tasks of a thread wrote after checkpoints that are gone.
delete from cortex.graph_write as w
where w.thread_id = :thread_id
  and not exists (
    select 1
    from cortex.graph_checkpoint c
    where c.thread_id = w.thread_id and c.namespace = w.namespace and c.checkpoint_id = w.checkpoint_id);
