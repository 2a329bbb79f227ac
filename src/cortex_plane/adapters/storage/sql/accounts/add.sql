-- Adds a person. No row means that the name is taken.
insert into cortex.user_account (id, name, display_name, email, created_at)
values (:id, :name, :display_name, :email, :now)
on conflict (name) do nothing
returning id;
