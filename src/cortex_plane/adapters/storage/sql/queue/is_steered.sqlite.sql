-- Whether a claim must look at pauses, limits, fair shares or reservations, and whether the gate is closed.
-- Only on SQLite: PostgreSQL asks this inside its function.
select
  exists (select 1 from cortex.control where scope = 'gate' and paused) as closed,
  exists (select 1 from cortex.control where paused or max_running is not null or fair_share)
    or exists (select 1 from cortex.direct_reservation where status = 'ACTIVE')
    or exists (select 1 from cortex.queue_entry where state = 'ready' and by_tenant = 1) as steered;
