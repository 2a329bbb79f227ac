-- How many entries have a higher number.
select count(*) as entries
from cortex.audit_log
where seq > :after;
