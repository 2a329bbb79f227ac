-- Open requests whose time is over, the oldest first.
select id
from cortex.approval_request
where outcome is null
  and expires_at <= :now
order by expires_at
limit :limit;
