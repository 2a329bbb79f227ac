-- How many of the newest :looked_through entries there are, and the number of the oldest of them.
select count(*) as entries,
  (select seq
   from cortex.audit_log
   where at >= :since
     and (at, seq) < (:upper_at, :upper_seq)
   order by at desc, seq desc
   limit 1 offset :looked_through - 1) as last
from (
  select 1
  from cortex.audit_log
  where at >= :since
    and (at, seq) < (:upper_at, :upper_seq)
  order by at desc, seq desc
  limit :looked_through) newest;
