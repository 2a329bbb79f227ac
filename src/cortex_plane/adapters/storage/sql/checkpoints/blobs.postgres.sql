-- Those of some large results of one job that are there.
-- Differs: a list of digests is an array here.
select sha256, content
from cortex.job_blob
where job_id = cast(:job_id as uuid)
  and sha256 = any (cast(:digests as text[]));
