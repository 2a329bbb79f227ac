-- The parent, if it goes on or completed.
-- Differs: with one writer there is nothing to lock.
select id from cortex.job
where id = :parent_id
  and status not in ('FAILED', 'CANCELLED');
