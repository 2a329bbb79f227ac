-- Keeps checkpoints of graphs; one that is there already takes the newer content.
-- Differs: a batch is taken apart by other functions.
insert into cortex.graph_checkpoint
  (thread_id, namespace, checkpoint_id, parent_id, run_id, kind, content, channels, metadata, created_at)
select c ->> 0, c ->> 1, c ->> 2, c ->> 3, c ->> 4, c ->> 5,
  substr(cast(:contents as bytea), cast(c ->> 6 as integer), cast(c ->> 7 as integer)), c -> 8, c -> 9, :now
from jsonb_array_elements(cast(:batch as jsonb)) as c
on conflict (thread_id, namespace, checkpoint_id) do update
set parent_id = excluded.parent_id,
  run_id = excluded.run_id,
  kind = excluded.kind,
  content = excluded.content,
  channels = excluded.channels,
  metadata = excluded.metadata;
