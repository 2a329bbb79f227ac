-- Errors, interrupts and answers that tasks of a thread have written.
select namespace, checkpoint_id, task_id, place, channel, task_path, kind, content
from cortex.graph_write
where thread_id = :thread_id
  and place < 0;
