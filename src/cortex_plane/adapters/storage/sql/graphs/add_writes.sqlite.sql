-- Keeps what tasks wrote. What is there stays, but for errors, interrupts and answers (places below 0): there the newer counts.
-- Differs: a batch is taken apart by other functions; what is cut out of nothing is null here.
insert into cortex.graph_write (thread_id, namespace, checkpoint_id, task_id, place, channel, task_path, kind, content)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
  coalesce(substr(:contents, value ->> 8, value ->> 9), x'')
from json_each(:batch)
where true
on conflict (thread_id, namespace, checkpoint_id, task_id, place) do update
set channel = excluded.channel,
  task_path = excluded.task_path,
  kind = excluded.kind,
  content = excluded.content
where excluded.place < 0;
