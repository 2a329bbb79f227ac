-- Gives a thread what the tasks of another wrote.
insert into cortex.graph_write (thread_id, namespace, checkpoint_id, task_id, place, channel, task_path, kind, content)
select :target_id, namespace, checkpoint_id, task_id, place, channel, task_path, kind, content
from cortex.graph_write
where thread_id = :source_id
on conflict (thread_id, namespace, checkpoint_id, task_id, place) do nothing;
