-- Keeps values of channels; a version that is there already stays as it is.
-- Differs: a batch is taken apart by other functions.
insert into cortex.graph_value (thread_id, namespace, channel, version, kind, content)
select v ->> 0, v ->> 1, v ->> 2, v ->> 3, v ->> 4,
  substr(cast(:contents as bytea), cast(v ->> 5 as integer), cast(v ->> 6 as integer))
from jsonb_array_elements(cast(:batch as jsonb)) as v
on conflict (thread_id, namespace, channel, version) do nothing;
