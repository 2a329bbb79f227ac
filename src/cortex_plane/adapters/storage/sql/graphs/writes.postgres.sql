-- What tasks wrote after some checkpoints of a thread, in the order in which it takes effect.
-- Differs: a list is taken apart by other functions.
select t.namespace, t.checkpoint_id, t.task_id, t.place, t.channel, t.task_path, t.kind, t.content
from jsonb_array_elements(cast(:wanted as jsonb)) as w
cross join lateral (
  select namespace, checkpoint_id, task_id, place, channel, task_path, kind, content
  from cortex.graph_write
  where thread_id = :thread_id
    and namespace = w ->> 0
    and checkpoint_id = w ->> 1
  offset 0) t
order by t.task_path, t.task_id, t.place;
