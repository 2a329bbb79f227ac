-- In how many seconds the next open request expires, or is to be reminded of or escalated; null when none is open.
-- Differs: how instants are subtracted.
select (min(at) - :now) / 1000000.0 as seconds
from (
  select (select expires_at from cortex.approval_request where outcome is null order by expires_at limit 1) as at
  union all
  select (
    select remind_at from cortex.approval_request where outcome is null and remind_at is not null order by remind_at limit 1)
  union all
  select (
    select escalate_at from cortex.approval_request where outcome is null and escalate_at is not null
    order by escalate_at limit 1)
) d;
