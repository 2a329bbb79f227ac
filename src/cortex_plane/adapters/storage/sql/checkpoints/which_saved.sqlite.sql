-- Those jobs of a batch that have the checkpoint that it brought.
-- Only on SQLite: asked when a batch applied in part.
select j.id
from jsonb_each(:batch) c
cross join cortex.job j on j.id = c.value ->> 0
where j.run_id = c.value ->> 1
  and j.checkpoint_id = c.value ->> 2;
