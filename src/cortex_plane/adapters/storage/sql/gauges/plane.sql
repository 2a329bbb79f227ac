-- How many workers live, and whether the gate is open.
select (select count(*) from cortex.worker where status = 'LIVE') as workers,
  not exists (select 1 from cortex.control where scope = 'gate' and paused) as open;
