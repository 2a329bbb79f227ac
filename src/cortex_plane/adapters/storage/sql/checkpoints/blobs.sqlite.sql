-- Those of some large results of one job that are there.
-- Differs: a list of digests is JSON here.
select sha256, content
from cortex.job_blob
where job_id = :job_id
  and sha256 in (select value from json_each(:digests));
