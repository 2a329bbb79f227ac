-- Deletes the values of a thread that no checkpoint of it has any more.
-- Differs: the versions of a checkpoint are jsonb here.
delete from cortex.graph_value as v
where v.thread_id = :thread_id
  and not exists (
    select 1
    from cortex.graph_checkpoint c
    where c.thread_id = v.thread_id and c.namespace = v.namespace and c.channels ->> v.channel = v.version);
