-- Open requests that are to be escalated or reminded of, and can still be decided.
select id, purpose
from (
  select * from (
    select id, 'escalate' as purpose, escalate_at as at from cortex.approval_request
    where outcome is null and escalate_at is not null and escalate_at <= :now and expires_at > :now
    order by escalate_at
    limit :limit) escalation
  union all
  select * from (
    select id, 'remind' as purpose, remind_at as at from cortex.approval_request
    where outcome is null and remind_at is not null and remind_at <= :now and expires_at > :now
    order by remind_at
    limit :limit) reminder
) d
order by at, purpose
limit :limit;
