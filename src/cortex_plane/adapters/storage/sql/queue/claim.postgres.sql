-- Claims ready jobs for one worker, in queue order, as many as run ids are given.
-- Differs: a function takes the locks first and then reads.
select *
from cortex.claim(cast(:worker_id as uuid), :actor, cast(:queues as text[]), cast(:job_types as text[]),
  cast(:run_ids as uuid[]));
