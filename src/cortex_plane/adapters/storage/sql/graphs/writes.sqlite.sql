-- What tasks wrote after some checkpoints of a thread, in the order in which it takes effect.
-- Differs: a list is taken apart by other functions.
select t.namespace, t.checkpoint_id, t.task_id, t.place, t.channel, t.task_path, t.kind, t.content
from json_each(:wanted) w
cross join cortex.graph_write t
where t.thread_id = :thread_id
  and t.namespace = w.value ->> 0
  and t.checkpoint_id = w.value ->> 1
order by t.task_path, t.task_id, t.place;
