-- name: add
-- Adds a tenant; an existing one is left alone, and no row says so.
insert into cortex.tenant (id, name, created_at)
values (:id, :name, :now)
on conflict (name) do nothing
returning id;

-- name: count_running
-- How many jobs of a tenant run on a worker, without the plane's own.
select count(*) as jobs
from cortex.open_run
where worker_id is not null and tenant_id = :tenant_id and queue <> 'cortex';

-- name: count_waiting [postgres]
-- How many jobs of a tenant wait, by state of their queue entries, without the plane's own.
-- Differs: writers add changes here, so that no two of them meet.
select cast(state as text) as state, cast(sum(entries) as bigint) as jobs
from (
  select state, entries from cortex.entry_count where scope = 'tenant' and name = cast(:tenant_id as text)
  union all
  select state, change from cortex.entry_count_change where scope = 'tenant' and name = cast(:tenant_id as text)) counted
group by state
having sum(entries) > 0;

-- name: count_waiting [sqlite]
-- How many jobs of a tenant wait, by state of their queue entries, without the plane's own.
-- Differs: with one writer there are no changes to fold.
select state, entries as jobs
from cortex.entry_count
where scope = 'tenant'
  and name = :tenant_id
  and entries > 0;

-- name: find
-- The id of one tenant.
select id
from cortex.tenant
where name = :name;

-- name: list
-- All tenants, by name.
select id, name, created_at
from cortex.tenant
order by name;
