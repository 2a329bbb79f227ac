-- Nothing: whoever writes is alone.
-- Differs: PostgreSQL has many writers.
select 1 where false;
