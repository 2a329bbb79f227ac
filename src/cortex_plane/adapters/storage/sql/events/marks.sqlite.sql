-- What changes when there is something new to tell of a job: its transitions, its checkpoint, what its runs say.
-- Differs: lists are JSON text.
select j.id, j.revision, j.checkpoint_id,
  (select e.seq from cortex.job_event e where e.job_id = j.id order by e.seq desc limit 1) as seq
from json_each(:ids) i
join cortex.job j on j.id = i.value;
