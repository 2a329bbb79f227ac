-- name: add [postgres]
-- Adds what was told of jobs, in order; what was told of a job that is gone is left out.
-- Differs: a batch is a jsonb record set here.
insert into cortex.job_event (job_id, run_id, at, kind, data)
select e.job_id, e.run_id, cortex.instant(e.at), e.kind, e.data
from rows from (jsonb_to_recordset(cast(:events as jsonb)) as (job_id uuid, run_id uuid, at bigint, kind text, data jsonb))
  with ordinality as e(job_id, run_id, at, kind, data, place)
where exists (select 1 from cortex.job j where j.id = e.job_id)
order by e.place;

-- name: add [sqlite]
-- Adds what was told of jobs, in order; what was told of a job that is gone is left out.
-- Differs: a batch is jsonb_each here.
insert into cortex.job_event (job_id, run_id, at, kind, data)
select e.value ->> 'job_id', e.value ->> 'run_id', e.value ->> 'at', e.value ->> 'kind', e.value -> 'data'
from jsonb_each(:events) e
where exists (select 1 from cortex.job j where j.id = e.value ->> 'job_id')
order by e.key;

-- name: list
-- What was told of one job after a number, in order.
select seq, job_id, run_id, at, kind, data
from cortex.job_event
where job_id = :job_id
  and seq > :after
order by seq
limit :limit;

-- name: marks [postgres]
-- What changes when there is something new to tell of a job: its transitions, its checkpoint, what its runs say.
-- Differs: lists are arrays, and the fence (offset 0) keeps the join a look-up by index.
select j.id, j.revision, j.checkpoint_id,
  (select e.seq from cortex.job_event e where e.job_id = j.id order by e.seq desc limit 1) as seq
from unnest(cast(:ids as uuid[])) as i(id)
cross join lateral (select id, revision, checkpoint_id from cortex.job where id = i.id offset 0) j;

-- name: marks [sqlite]
-- What changes when there is something new to tell of a job: its transitions, its checkpoint, what its runs say.
-- Differs: lists are JSON text.
select j.id, j.revision, j.checkpoint_id,
  (select e.seq from cortex.job_event e where e.job_id = j.id order by e.seq desc limit 1) as seq
from json_each(:ids) i
join cortex.job j on j.id = i.value;
