-- name: add_checkpoints [postgres]
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

-- name: add_checkpoints [sqlite]
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

-- name: add_values [postgres]
-- Keeps values of channels; a version that is there already stays as it is.
-- Differs: a batch is taken apart by other functions.
insert into cortex.graph_value (thread_id, namespace, channel, version, kind, content)
select v ->> 0, v ->> 1, v ->> 2, v ->> 3, v ->> 4,
  substr(cast(:contents as bytea), cast(v ->> 5 as integer), cast(v ->> 6 as integer))
from jsonb_array_elements(cast(:batch as jsonb)) as v
on conflict (thread_id, namespace, channel, version) do nothing;

-- name: add_values [sqlite]
-- Keeps values of channels; a version that is there already stays as it is.
-- Differs: a batch is taken apart by other functions; what is cut out of nothing is null here.
insert into cortex.graph_value (thread_id, namespace, channel, version, kind, content)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, coalesce(substr(:contents, value ->> 5, value ->> 6), x'')
from json_each(:batch)
where true
on conflict (thread_id, namespace, channel, version) do nothing;

-- name: add_writes [postgres]
-- Keeps what tasks wrote. What is there stays, but for errors, interrupts and answers (places below 0): there the newer counts.
-- Differs: a batch is taken apart by other functions.
insert into cortex.graph_write (thread_id, namespace, checkpoint_id, task_id, place, channel, task_path, kind, content)
select w ->> 0, w ->> 1, w ->> 2, w ->> 3, cast(w ->> 4 as integer), w ->> 5, w ->> 6, w ->> 7,
  substr(cast(:contents as bytea), cast(w ->> 8 as integer), cast(w ->> 9 as integer))
from jsonb_array_elements(cast(:batch as jsonb)) as w
on conflict (thread_id, namespace, checkpoint_id, task_id, place) do update
set channel = excluded.channel,
  task_path = excluded.task_path,
  kind = excluded.kind,
  content = excluded.content
where excluded.place < 0;

-- name: add_writes [sqlite]
-- Keeps what tasks wrote. What is there stays, but for errors, interrupts and answers (places below 0): there the newer counts.
-- Differs: a batch is taken apart by other functions; what is cut out of nothing is null here.
insert into cortex.graph_write (thread_id, namespace, checkpoint_id, task_id, place, channel, task_path, kind, content)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
  coalesce(substr(:contents, value ->> 8, value ->> 9), x'')
from json_each(:batch)
where true
on conflict (thread_id, namespace, checkpoint_id, task_id, place) do update
set channel = excluded.channel,
  task_path = excluded.task_path,
  kind = excluded.kind,
  content = excluded.content
where excluded.place < 0;

-- name: copy_checkpoints
-- Gives a thread the checkpoints of another.
insert into cortex.graph_checkpoint
  (thread_id, namespace, checkpoint_id, parent_id, run_id, kind, content, channels, metadata, created_at)
select :target_id, namespace, checkpoint_id, parent_id, run_id, kind, content, channels, metadata, :now
from cortex.graph_checkpoint
where thread_id = :source_id
on conflict (thread_id, namespace, checkpoint_id) do nothing;

-- name: copy_values
-- Gives a thread the values of another.
insert into cortex.graph_value (thread_id, namespace, channel, version, kind, content)
select :target_id, namespace, channel, version, kind, content
from cortex.graph_value
where thread_id = :source_id
on conflict (thread_id, namespace, channel, version) do nothing;

-- name: copy_writes
-- Gives a thread what the tasks of another wrote.
insert into cortex.graph_write (thread_id, namespace, checkpoint_id, task_id, place, channel, task_path, kind, content)
select :target_id, namespace, checkpoint_id, task_id, place, channel, task_path, kind, content
from cortex.graph_write
where thread_id = :source_id
on conflict (thread_id, namespace, checkpoint_id, task_id, place) do nothing;

-- name: delete_checkpoints
-- Deletes the checkpoints of a thread.
delete from cortex.graph_checkpoint
where thread_id = :thread_id;

-- name: delete_run
-- Deletes the checkpoints that a run made; returns their threads.
delete from cortex.graph_checkpoint
where run_id = :run_id
returning thread_id;

-- name: delete_values
-- Deletes the values of a thread's channels.
delete from cortex.graph_value
where thread_id = :thread_id;

-- name: delete_writes
-- Deletes what the tasks of a thread wrote.
delete from cortex.graph_write
where thread_id = :thread_id;

-- name: get
-- One checkpoint of a graph.
select thread_id, namespace, checkpoint_id, parent_id, kind, content, channels, metadata
from cortex.graph_checkpoint
where thread_id = :thread_id
  and namespace = :namespace
  and checkpoint_id = :checkpoint_id;

-- name: hold [postgres]
-- Makes sure that a run is its job's open run, until the transaction ends; no row when it was superseded.
-- Differs: another session could end the run meanwhile, so the row is locked.
select id
from cortex.job
where id = :job_id
  and run_id = :run_id
for share;

-- name: hold [sqlite]
-- Makes sure that a run is its job's open run, until the transaction ends; no row when it was superseded.
-- Differs: there is one writer, so nothing needs to be locked.
select id
from cortex.job
where id = :job_id
  and run_id = :run_id;

-- name: latest
-- The newest checkpoint of a graph.
select thread_id, namespace, checkpoint_id, parent_id, kind, content, channels, metadata
from cortex.graph_checkpoint
where thread_id = :thread_id
  and namespace = :namespace
order by checkpoint_id desc
limit 1;

-- name: list [postgres]
-- Checkpoints of a thread whose metadata has all that is asked for, newest first, from a place on.
-- Differs: metadata is jsonb here.
select thread_id, namespace, checkpoint_id, parent_id, kind, content, channels, metadata
from cortex.graph_checkpoint g
where thread_id = :thread_id
  and (cast(:namespace as text) is null or namespace = :namespace)
  and (cast(:checkpoint_id as text) is null or checkpoint_id = :checkpoint_id)
  and (checkpoint_id, namespace) < (:before_id, :before_namespace)
  and not exists (
    select 1
    from jsonb_each(cast(:filter as jsonb)) f
    where coalesce(g.metadata -> f.key, 'null') <> f.value)
order by checkpoint_id desc, namespace desc
limit :limit;

-- name: list [sqlite]
-- Checkpoints of a thread whose metadata has all that is asked for, newest first, from a place on.
-- Differs: metadata is text here.
select thread_id, namespace, checkpoint_id, parent_id, kind, content, channels, metadata
from cortex.graph_checkpoint g
where thread_id = :thread_id
  and (:namespace is null or namespace = :namespace)
  and (:checkpoint_id is null or checkpoint_id = :checkpoint_id)
  and (checkpoint_id, namespace) < (:before_id, :before_namespace)
  and not exists (
    select 1
    from json_each(:filter) f
    left join json_each(g.metadata) m on m.key = f.key
    where m.value is not f.value)
order by checkpoint_id desc, namespace desc
limit :limit;

-- name: prune
-- Keeps only the newest checkpoint of each graph of a thread; all of them where state is stored as differences.
delete from cortex.graph_checkpoint as c
where c.thread_id = :thread_id
  and exists (
    select 1
    from cortex.graph_checkpoint n
    where n.thread_id = c.thread_id and n.namespace = c.namespace and n.checkpoint_id > c.checkpoint_id)
  and not exists (
    select 1
    from cortex.graph_checkpoint d
    where d.thread_id = c.thread_id and d.namespace = c.namespace
      and d.metadata -> 'counters_since_delta_snapshot' is not null);

-- name: sweep_values [postgres]
-- Deletes the values of a thread that no checkpoint of it has any more.
-- Differs: the versions of a checkpoint are jsonb here.
delete from cortex.graph_value as v
where v.thread_id = :thread_id
  and not exists (
    select 1
    from cortex.graph_checkpoint c
    where c.thread_id = v.thread_id and c.namespace = v.namespace and c.channels ->> v.channel = v.version);

-- name: sweep_values [sqlite]
-- Deletes the values of a thread that no checkpoint of it has any more.
-- Differs: the versions of a checkpoint are text here.
delete from cortex.graph_value as v
where v.thread_id = :thread_id
  and not exists (
    select 1
    from cortex.graph_checkpoint c, json_each(c.channels) k
    where c.thread_id = v.thread_id and c.namespace = v.namespace and k.key = v.channel and k.value = v.version);

-- name: sweep_writes
-- Deletes what tasks of a thread wrote after checkpoints that are gone.
delete from cortex.graph_write as w
where w.thread_id = :thread_id
  and not exists (
    select 1
    from cortex.graph_checkpoint c
    where c.thread_id = w.thread_id and c.namespace = w.namespace and c.checkpoint_id = w.checkpoint_id);

-- name: threads
-- Some threads that have checkpoints, in the order of their ids.
select distinct thread_id
from cortex.graph_checkpoint
where thread_id > :after
order by thread_id
limit :limit;

-- name: values [postgres]
-- Those of some versions of a thread's channels that have a value.
-- Differs: a list is taken apart by other functions.
select v.namespace, v.channel, v.version, v.kind, v.content
from jsonb_array_elements(cast(:wanted as jsonb)) as w
cross join lateral (
  select namespace, channel, version, kind, content
  from cortex.graph_value
  where thread_id = :thread_id
    and namespace = w ->> 0
    and channel = w ->> 1
    and version = w ->> 2
  limit 1) v;

-- name: values [sqlite]
-- Those of some versions of a thread's channels that have a value.
-- Differs: a list is taken apart by other functions.
select v.namespace, v.channel, v.version, v.kind, v.content
from json_each(:wanted) w
cross join cortex.graph_value v
where v.thread_id = :thread_id
  and v.namespace = w.value ->> 0
  and v.channel = w.value ->> 1
  and v.version = w.value ->> 2;

-- name: writes [postgres]
-- What tasks wrote after some checkpoints of a thread, in the order in which it takes effect.
-- Differs: a list is taken apart by other functions.
select t.namespace, t.checkpoint_id, t.task_id, t.place, t.channel, t.task_path, t.kind, t.content
from jsonb_array_elements(cast(:wanted as jsonb)) as w
cross join lateral (
  select namespace, checkpoint_id, task_id, place, channel, task_path, kind, content
  from cortex.graph_write
  where thread_id = :thread_id
    and namespace = w ->> 0
    and checkpoint_id = w ->> 1
  offset 0) t
order by t.task_path, t.task_id, t.place;

-- name: writes [sqlite]
-- What tasks wrote after some checkpoints of a thread, in the order in which it takes effect.
-- Differs: a list is taken apart by other functions.
select t.namespace, t.checkpoint_id, t.task_id, t.place, t.channel, t.task_path, t.kind, t.content
from json_each(:wanted) w
cross join cortex.graph_write t
where t.thread_id = :thread_id
  and t.namespace = w.value ->> 0
  and t.checkpoint_id = w.value ->> 1
order by t.task_path, t.task_id, t.place;
