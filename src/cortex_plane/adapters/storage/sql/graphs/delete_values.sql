-- Deletes the values of a thread's channels.
delete from cortex.graph_value
where thread_id = :thread_id;
