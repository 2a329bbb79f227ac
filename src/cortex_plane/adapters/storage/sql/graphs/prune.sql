-- Keeps only the newest checkpoint of each graph of a thread; all of them where state is stored as differences.
delete from cortex.graph_checkpoint as c
where c.thread_id = :thread_id
  and exists (
    select 1
    from cortex.graph_checkpoint n
    where n.thread_id = c.thread_id and n.namespace = c.namespace and n.checkpoint_id > c.checkpoint_id)
  and not exists (
    select 1
    from cortex.graph_checkpoint d
    where d.thread_id = c.thread_id and d.namespace = c.namespace
      and d.metadata -> 'counters_since_delta_snapshot' is not null);
