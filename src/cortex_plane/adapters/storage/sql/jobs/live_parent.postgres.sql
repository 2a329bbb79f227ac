-- The parent, if it goes on or completed. One that is just ending is waited for.
-- Differs: its row is locked, so that it stays as it was seen.
select id from cortex.job
where id = cast(:parent_id as uuid)
  and status not in ('FAILED', 'CANCELLED')
for share;
