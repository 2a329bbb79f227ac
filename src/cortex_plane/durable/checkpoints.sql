-- name: add_blobs [sqlite]
-- Keeps the large results and segments that checkpoints refer to, if those were saved; one that is there already is left alone.
-- Only on SQLite: PostgreSQL does this inside its function.
insert into cortex.job_blob (job_id, sha256, content, seq, created_at)
select j.id, c.value ->> 2, cast(substr(:contents, c.value ->> 3, c.value ->> 4) as text), c.value ->> 5, :now
from jsonb_each(:batch) c
cross join cortex.job j on j.id = c.value ->> 0
where j.checkpoint_id = c.value ->> 1
  and not exists (select 1 from cortex.job_blob where job_id = j.id and sha256 = c.value ->> 2);

-- name: blobs [postgres]
-- Those of some large results of one job that are there.
-- Differs: a list of digests is an array here.
select sha256, content
from cortex.job_blob
where job_id = cast(:job_id as uuid)
  and sha256 = any (cast(:digests as text[]));

-- name: blobs [sqlite]
-- Those of some large results of one job that are there.
-- Differs: a list of digests is JSON here.
select sha256, content
from cortex.job_blob
where job_id = :job_id
  and sha256 in (select value from json_each(:digests));

-- name: count_saved [sqlite]
-- How many jobs of a batch have the checkpoint that it brought.
-- Only on SQLite: to read back each row of an update would cost the handlers' thread a turn each.
select count(*) as saved
from jsonb_each(:batch) c
cross join cortex.job j on j.id = c.value ->> 0
where j.run_id = c.value ->> 1
  and j.checkpoint_id = c.value ->> 2;

-- name: live
-- The checkpoints of jobs that have not ended, by the jobs' ids. Walks along the primary key, past those that have.
select id, agent_id, job_type, checkpoint_id, checkpoint
from cortex.job
where id > :after
  and checkpoint is not null
  and status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
order by id
limit :limit;

-- name: load [postgres]
-- The checkpoint of one job with its segments after one of them, and what it must fit to: read together, they belong together.
-- Differs: how rows are put into a list.
-- No row: none is written, or there is no such job.
select j.id, j.agent_id, j.job_type, j.checkpoint_id, j.checkpoint,
  (select json_agg(json_build_array(b.seq, b.sha256, b.content))
   from cortex.job_blob b
   where b.job_id = j.id and b.seq is not null and b.seq > :after_segment) as segments,
  h.codes as hold_codes, h.offered as hold_offered, h.handed_back, h.error as hold_error
from cortex.job j
left join cortex.job_hold h on h.job_id = j.id
where j.id = :job_id
  and j.checkpoint is not null;

-- name: load [sqlite]
-- The checkpoint of one job with its segments after one of them, and what it must fit to: read together, they belong together.
-- Differs: how rows are put into a list.
-- No row: none is written, or there is no such job.
select j.id, j.agent_id, j.job_type, j.checkpoint_id, j.checkpoint,
  (select json_group_array(json_array(b.seq, b.sha256, b.content))
   from cortex.job_blob b
   where b.job_id = j.id and b.seq is not null and b.seq > :after_segment) as segments,
  h.codes as hold_codes, h.offered as hold_offered, h.handed_back, h.error as hold_error
from cortex.job j
left join cortex.job_hold h on h.job_id = j.id
where j.id = :job_id
  and j.checkpoint is not null;

-- name: save [postgres]
-- Saves a batch of checkpoints, one for each job, each fenced by its run and its predecessor; returns the ids that applied.
-- Only on PostgreSQL: one round trip for the whole batch. SQLite has none to save, and takes them one by one.
select cortex.save_checkpoints(cast(:job_ids as uuid[]), cast(:run_ids as uuid[]), cast(:ids as uuid[]),
  cast(:previous_ids as uuid[]), cast(:documents as text[]), cast(:costs as bigint[]),
  cast(:blob_job_ids as uuid[]), cast(:blob_digests as text[]), cast(:blob_contents as text[]),
  cast(:blob_seqs as int[])) as id;

-- name: save_batch [sqlite]
-- Saves a batch of checkpoints, at most one for each job, each fenced by its run and its predecessor.
-- Only on SQLite: the documents are bytes one after the other, so that none is copied into a larger one or parsed on its way.
insert into cortex.checkpoint_to_save (job_id, run_id, id, previous_id, cost_cents, document, at)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4,
  cast(substr(:documents, value ->> 5, value ->> 6) as text), :now
from jsonb_each(:batch);

-- name: save_one [postgres]
-- Saves one checkpoint that brings no large results, fenced by its run and its predecessor; returns the id if it applied.
-- Differs: a document is json here.
update cortex.job
set checkpoint = cast(:document as json),
  checkpoint_id = :id,
  cost_cents = cost_cents + case when checkpoint_id = :id then 0 else cast(:cost_cents as bigint) end,
  updated_at = greatest(cortex.now(), updated_at)
where id = :job_id
  and run_id = :run_id
  and (checkpoint_id is not distinct from cast(:previous_id as uuid) or checkpoint_id = :id)
returning id;

-- name: save_one [sqlite]
-- Saves one checkpoint that brings no large results, fenced by its run and its predecessor; returns the id if it applied.
-- Differs: a document is text here.
update cortex.job
set checkpoint = :document,
  checkpoint_id = :id,
  cost_cents = cost_cents + iif(checkpoint_id is :id, 0, :cost_cents),
  updated_at = max(:now, updated_at)
where id = :job_id
  and run_id = :run_id
  and (checkpoint_id is :previous_id or checkpoint_id = :id)
returning id;

-- name: which_saved [sqlite]
-- Those jobs of a batch that have the checkpoint that it brought.
-- Only on SQLite: asked when a batch applied in part.
select j.id
from jsonb_each(:batch) c
cross join cortex.job j on j.id = c.value ->> 0
where j.run_id = c.value ->> 1
  and j.checkpoint_id = c.value ->> 2;
