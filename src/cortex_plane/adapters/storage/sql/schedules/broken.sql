-- Schedules, by id, whose chain has no job that goes on, or whose slot was reckoned by other time-zone data.
select s.id
from cortex.schedule s
left join cortex.job j on j.id = s.slot_job_id
where s.enabled
  and s.id > :after
  and ((s.next_run_at is not null and (j.id is null or j.finished_at is not null)) or s.zone_data <> :zone_data)
order by s.id
limit :limit;
