-- The newest entry, if its number is higher, and which transactions must have ended before nothing can appear below it.
-- Differs: there is one writer, so whatever is visible is complete.
select seq, 0 as horizon, 1 as oldest, :now as at
from cortex.audit_log
where seq > :after
order by seq desc
limit 1;
