-- People by name, those after :after.
select id, name, display_name, email, created_at, disabled_at
from cortex.user_account
where name > :after
order by name
limit :limit;
