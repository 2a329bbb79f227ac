-- Nothing: any commit wakes every worker.
-- Differs: PostgreSQL has to say so.
select 1 where false;
