-- Keeps what tasks wrote. What is there stays, but for errors, interrupts and answers (places below 0): there the newer counts.
-- Differs: a batch is taken apart by other functions.
insert into cortex.graph_write (thread_id, namespace, checkpoint_id, task_id, place, channel, task_path, kind, content)
select w ->> 0, w ->> 1, w ->> 2, w ->> 3, cast(w ->> 4 as integer), w ->> 5, w ->> 6, w ->> 7,
  substr(cast(:contents as bytea), cast(w ->> 8 as integer), cast(w ->> 9 as integer))
from jsonb_array_elements(cast(:batch as jsonb)) as w
on conflict (thread_id, namespace, checkpoint_id, task_id, place) do update
set channel = excluded.channel,
  task_path = excluded.task_path,
  kind = excluded.kind,
  content = excluded.content
where excluded.place < 0;
