-- Checkpoints of a thread whose metadata has all that is asked for, newest first, from a place on.
-- Differs: metadata is text here.
select thread_id, namespace, checkpoint_id, parent_id, kind, content, channels, metadata
from cortex.graph_checkpoint g
where thread_id = :thread_id
  and (:namespace is null or namespace = :namespace)
  and (:checkpoint_id is null or checkpoint_id = :checkpoint_id)
  and (checkpoint_id, namespace) < (:before_id, :before_namespace)
  and not exists (
    select 1
    from json_each(:filter) f
    left join json_each(g.metadata) m on m.key = f.key
    where m.value is not f.value)
order by checkpoint_id desc, namespace desc
limit :limit;
