-- How many jobs of a batch have the checkpoint that it brought.
-- Only on SQLite: to read back each row of an update would cost the handlers' thread a turn each.
select count(*) as saved
from jsonb_each(:batch) c
cross join cortex.job j on j.id = c.value ->> 0
where j.run_id = c.value ->> 1
  and j.checkpoint_id = c.value ->> 2;
