-- The newest jobs before :before.
select j.id
from cortex.job j
where j.id < :before
order by j.id desc
limit :limit;
