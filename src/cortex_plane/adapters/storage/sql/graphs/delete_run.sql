-- Deletes the checkpoints that a run made; returns their threads.
delete from cortex.graph_checkpoint
where run_id = :run_id
returning thread_id;
