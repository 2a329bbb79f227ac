-- Keeps values of channels; a version that is there already stays as it is.
-- Differs: a batch is taken apart by other functions; what is cut out of nothing is null here.
insert into cortex.graph_value (thread_id, namespace, channel, version, kind, content)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, coalesce(substr(:contents, value ->> 5, value ->> 6), x'')
from json_each(:batch)
where true
on conflict (thread_id, namespace, channel, version) do nothing;
