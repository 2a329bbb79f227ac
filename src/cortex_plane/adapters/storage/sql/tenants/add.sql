-- Adds a tenant; an existing one is left alone, and no row says so.
insert into cortex.tenant (id, name, created_at)
values (:id, :name, :now)
on conflict (name) do nothing
returning id;
