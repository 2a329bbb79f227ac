-- The last job of the retry chain that a job belongs to.
with recursive chain (id, place) as (
  select j.id, 0 from cortex.job j where j.id = :id
  union all
  select r.id, c.place + 1 from chain c join cortex.job r on r.retry_of = c.id
)
select j.id, j.status
from chain c
join cortex.job j on j.id = c.id
order by c.place desc
limit 1;
