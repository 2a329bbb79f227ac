-- The state of graphs: what an executor such as LangGraph keeps of a thread, so that any worker can go on with it.
--
--   a thread of a job bears the job's id, and goes with it
--   a checkpoint ──▶ one value for each of its channels, by version; shared by all checkpoints that have that version
--   a checkpoint ──▶ what tasks wrote after it, until the next one

create table graph_checkpoint (
  thread_id text not null check (thread_id <> ''),
  namespace text not null,
  checkpoint_id text not null check (checkpoint_id <> ''),
  parent_id text,
  run_id text,
  kind text not null,
  content blob not null,
  channels text not null check (json_type(channels) = 'object'),
  metadata text not null check (json_type(metadata) = 'object'),
  created_at integer not null,
  primary key (thread_id, namespace, checkpoint_id)
) strict;
create index graph_checkpoint_of_run on graph_checkpoint (run_id) where run_id is not null;

create table graph_value (
  thread_id text not null check (thread_id <> ''),
  namespace text not null,
  channel text not null,
  version text not null,
  kind text not null,
  content blob not null,
  primary key (thread_id, namespace, channel, version)
) strict;

create table graph_write (
  thread_id text not null check (thread_id <> ''),
  namespace text not null,
  checkpoint_id text not null,
  task_id text not null,
  place integer not null,
  channel text not null,
  task_path text not null,
  kind text not null,
  content blob not null,
  primary key (thread_id, namespace, checkpoint_id, task_id, place)
) strict;

create trigger job_left_no_graph after delete on job
begin
  delete from graph_write where thread_id = old.id;
  delete from graph_value where thread_id = old.id;
  delete from graph_checkpoint where thread_id = old.id;
end;
