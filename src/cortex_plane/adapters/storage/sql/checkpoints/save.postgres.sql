-- Saves a batch of checkpoints, one for each job, each fenced by its run and its predecessor; returns the ids that applied.
-- Only on PostgreSQL: one round trip for the whole batch. SQLite has none to save, and takes them one by one.
select cortex.save_checkpoints(cast(:job_ids as uuid[]), cast(:run_ids as uuid[]), cast(:ids as uuid[]),
  cast(:previous_ids as uuid[]), cast(:documents as text[]), cast(:added as text[]), cast(:costs as bigint[]),
  cast(:blob_job_ids as uuid[]), cast(:blob_digests as text[]), cast(:blob_contents as text[])) as id;
