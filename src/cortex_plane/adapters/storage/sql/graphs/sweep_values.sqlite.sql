-- Deletes the values of a thread that no checkpoint of it has any more.
-- Differs: the versions of a checkpoint are text here.
delete from cortex.graph_value as v
where v.thread_id = :thread_id
  and not exists (
    select 1
    from cortex.graph_checkpoint c, json_each(c.channels) k
    where c.thread_id = v.thread_id and c.namespace = v.namespace and k.key = v.channel and k.value = v.version);
