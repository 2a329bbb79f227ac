-- Those of some versions of a thread's channels that have a value.
-- Differs: a list is taken apart by other functions.
select v.namespace, v.channel, v.version, v.kind, v.content
from json_each(:wanted) w
cross join cortex.graph_value v
where v.thread_id = :thread_id
  and v.namespace = w.value ->> 0
  and v.channel = w.value ->> 1
  and v.version = w.value ->> 2;
