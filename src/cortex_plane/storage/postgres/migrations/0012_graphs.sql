-- The state of graphs: what an executor such as LangGraph keeps of a thread, so that any worker can go on with it.
--
--   a thread of a job bears the job's id, and goes with it
--   a checkpoint ──▶ one value for each of its channels, by version; shared by all checkpoints that have that version
--   a checkpoint ──▶ what tasks wrote after it, until the next one
--
-- Texts that are compared have the order of their bytes: the newest checkpoint is the one with the greatest id.

create table cortex.graph_checkpoint (
  thread_id text collate "C" not null check (thread_id <> ''),
  namespace text collate "C" not null,
  checkpoint_id text collate "C" not null check (checkpoint_id <> ''),
  parent_id text collate "C",
  run_id text collate "C",
  kind text not null,
  content bytea not null,
  channels jsonb not null check (jsonb_typeof(channels) = 'object'),
  metadata jsonb not null check (jsonb_typeof(metadata) = 'object'),
  created_at timestamptz not null default cortex.now(),
  primary key (thread_id, namespace, checkpoint_id)
);
create index graph_checkpoint_of_run on cortex.graph_checkpoint (run_id) where run_id is not null;

create table cortex.graph_value (
  thread_id text collate "C" not null check (thread_id <> ''),
  namespace text collate "C" not null,
  channel text collate "C" not null,
  version text collate "C" not null,
  kind text not null,
  content bytea not null,
  primary key (thread_id, namespace, channel, version)
);

create table cortex.graph_write (
  thread_id text collate "C" not null check (thread_id <> ''),
  namespace text collate "C" not null,
  checkpoint_id text collate "C" not null,
  task_id text collate "C" not null,
  place integer not null,
  channel text collate "C" not null,
  task_path text collate "C" not null,
  kind text not null,
  content bytea not null,
  primary key (thread_id, namespace, checkpoint_id, task_id, place)
);

create function cortex.job_left_no_graph() returns trigger language plpgsql
  set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
declare
  _gone text[] := array(select cast(id as text) from old_job);
begin
  delete from cortex.graph_write where thread_id = any (_gone);
  delete from cortex.graph_value where thread_id = any (_gone);
  delete from cortex.graph_checkpoint where thread_id = any (_gone);
  return null;
end $$;
create trigger job_left_no_graph after delete on cortex.job
  referencing old table as old_job
  for each statement execute function cortex.job_left_no_graph();

comment on table cortex.graph_checkpoint is 'The state of a graph after a step. Those of a job''s own thread go with the job.';
comment on column cortex.graph_checkpoint.thread_id is 'The thread that the graph runs in: the id of its job, unless a program chose another.';
comment on column cortex.graph_checkpoint.namespace is 'Which graph: empty for the outermost, else the path to a graph inside of it.';
comment on column cortex.graph_checkpoint.checkpoint_id is 'The executor''s own id; later ones are greater.';
comment on column cortex.graph_checkpoint.parent_id is 'The checkpoint that it follows.';
comment on column cortex.graph_checkpoint.run_id is 'The run that made it, as its metadata says.';
comment on column cortex.graph_checkpoint.kind is 'How the content is written.';
comment on column cortex.graph_checkpoint.content is 'The checkpoint without the values of its channels.';
comment on column cortex.graph_checkpoint.channels is 'The version of each channel.';
comment on column cortex.graph_checkpoint.metadata is 'What the executor says about it.';
comment on column cortex.graph_checkpoint.created_at is 'When it was saved.';

comment on table cortex.graph_value is 'Values of the channels of graphs. A version of a channel never changes.';
comment on column cortex.graph_value.thread_id is 'Of which thread.';
comment on column cortex.graph_value.namespace is 'Of which graph in it.';
comment on column cortex.graph_value.channel is 'Of which channel.';
comment on column cortex.graph_value.version is 'Of which version of it.';
comment on column cortex.graph_value.kind is 'How the content is written.';
comment on column cortex.graph_value.content is 'The value.';

comment on table cortex.graph_write is 'What tasks of a graph have written since a checkpoint: it need not be done again.';
comment on column cortex.graph_write.thread_id is 'Of which thread.';
comment on column cortex.graph_write.namespace is 'Of which graph in it.';
comment on column cortex.graph_write.checkpoint_id is 'After which checkpoint.';
comment on column cortex.graph_write.task_id is 'Which task wrote it.';
comment on column cortex.graph_write.place is 'Its place among the writes of the task; below 0 for errors, interrupts and answers to them.';
comment on column cortex.graph_write.channel is 'To which channel.';
comment on column cortex.graph_write.task_path is 'The path of the task, by which writes are ordered.';
comment on column cortex.graph_write.kind is 'How the content is written.';
comment on column cortex.graph_write.content is 'What was written.';
