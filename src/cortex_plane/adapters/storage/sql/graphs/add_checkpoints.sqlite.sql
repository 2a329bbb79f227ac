-- Keeps checkpoints of graphs; one that is there already takes the newer content.
-- Differs: a batch is taken apart by other functions; what is cut out of nothing is null here.
insert into cortex.graph_checkpoint
  (thread_id, namespace, checkpoint_id, parent_id, run_id, kind, content, channels, metadata, created_at)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
  coalesce(substr(:contents, value ->> 6, value ->> 7), x''), value -> 8, value -> 9, :now
from json_each(:batch)
where true
on conflict (thread_id, namespace, checkpoint_id) do update
set parent_id = excluded.parent_id,
  run_id = excluded.run_id,
  kind = excluded.kind,
  content = excluded.content,
  channels = excluded.channels,
  metadata = excluded.metadata;
