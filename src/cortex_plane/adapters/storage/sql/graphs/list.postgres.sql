-- Checkpoints of a thread whose metadata has all that is asked for, newest first, from a place on.
-- Differs: metadata is jsonb here.
select thread_id, namespace, checkpoint_id, parent_id, kind, content, channels, metadata
from cortex.graph_checkpoint g
where thread_id = :thread_id
  and (cast(:namespace as text) is null or namespace = :namespace)
  and (cast(:checkpoint_id as text) is null or checkpoint_id = :checkpoint_id)
  and (checkpoint_id, namespace) < (:before_id, :before_namespace)
  and not exists (
    select 1
    from jsonb_each(cast(:filter as jsonb)) f
    where coalesce(g.metadata -> f.key, 'null') <> f.value)
order by checkpoint_id desc, namespace desc
limit :limit;
