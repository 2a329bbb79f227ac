-- Keeps values of channels; a version that is there already stays as it is.
-- Differs: a batch is taken apart by other functions.
insert into cortex.graph_value (thread_id, namespace, channel, version, kind, content)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, substr(:contents, value ->> 5, value ->> 6)
from json_each(:batch)
where true
on conflict (thread_id, namespace, channel, version) do nothing;
