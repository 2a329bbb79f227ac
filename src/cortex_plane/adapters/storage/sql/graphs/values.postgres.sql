-- Those of some versions of a thread's channels that have a value.
-- Differs: a list is taken apart by other functions.
select v.namespace, v.channel, v.version, v.kind, v.content
from jsonb_array_elements(cast(:wanted as jsonb)) as w
cross join lateral (
  select namespace, channel, version, kind, content
  from cortex.graph_value
  where thread_id = :thread_id
    and namespace = w ->> 0
    and channel = w ->> 1
    and version = w ->> 2
  limit 1) v;
