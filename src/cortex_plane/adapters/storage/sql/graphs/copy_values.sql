-- Gives a thread the values of another.
insert into cortex.graph_value (thread_id, namespace, channel, version, kind, content)
select :target_id, namespace, channel, version, kind, content
from cortex.graph_value
where thread_id = :source_id
on conflict (thread_id, namespace, channel, version) do nothing;
