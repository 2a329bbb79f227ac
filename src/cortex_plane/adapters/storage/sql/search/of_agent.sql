-- The newest jobs of one agent before :before.
select j.id
from cortex.job j
where j.agent_id = :agent_id
  and j.id < :before
order by j.id desc
limit :limit;
