-- In a queue that shares fairly, a tenant that was served steps back, and the clock of the queue goes on.
-- Only on SQLite: PostgreSQL has this as a function.
insert into cortex.fair_turn (queue, tenant_id, served)
select value ->> 'queue', value ->> 'tenant_id', value ->> 'served' from json_each(:turns)
where true
on conflict (queue, tenant_id) do update set served = max(served, excluded.served);
