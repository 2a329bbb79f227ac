-- Keeps the large results that checkpoints refer to, if those were saved; one that is there already is left alone.
-- Only on SQLite: PostgreSQL does this inside its function.
insert into cortex.job_blob (job_id, sha256, content, created_at)
select j.id, c.value ->> 2, cast(substr(:contents, c.value ->> 3, c.value ->> 4) as text), :now
from jsonb_each(:batch) c
cross join cortex.job j on j.id = c.value ->> 0
where j.checkpoint_id = c.value ->> 1
  and not exists (select 1 from cortex.job_blob where job_id = j.id and sha256 = c.value ->> 2);
