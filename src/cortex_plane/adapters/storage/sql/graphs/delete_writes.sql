-- Deletes what the tasks of a thread wrote.
delete from cortex.graph_write
where thread_id = :thread_id;
