-- What changes when there is something new to tell of a job: its transitions, its checkpoint, what its runs say.
-- Differs: lists are arrays, and the fence (offset 0) keeps the join a look-up by index.
select j.id, j.revision, j.checkpoint_id,
  (select e.seq from cortex.job_event e where e.job_id = j.id order by e.seq desc limit 1) as seq
from unnest(cast(:ids as uuid[])) as i(id)
cross join lateral (select id, revision, checkpoint_id from cortex.job where id = i.id offset 0) j;
