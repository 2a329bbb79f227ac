-- One person.
select id, name, display_name, email, created_at, disabled_at
from cortex.user_account
where id = :id;
