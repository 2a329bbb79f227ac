-- Where an entry stands in the order of time.
select at, seq
from cortex.audit_log
where seq = :seq;
