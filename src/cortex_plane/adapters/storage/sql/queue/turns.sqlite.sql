-- The turns of the tenants of queues that share fairly.
-- Only on SQLite: PostgreSQL reads them inside its function.
select f.queue, f.tenant_id, f.served
from cortex.control c
join cortex.fair_turn f on f.queue = c.name
where c.scope = 'queue' and c.fair_share and c.name in (select value from json_each(:queues))
union all
select c.name, '', 0 from cortex.control c
where c.scope = 'queue' and c.fair_share and c.name in (select value from json_each(:queues));
