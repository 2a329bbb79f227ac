-- What to claim while pauses, limits, fair shares or reservations are in force, in order.
-- Only on SQLite: PostgreSQL has this as a function, which takes its locks first.
with recursive running as materialized (
  select queue, job_type, tenant_id, count(*) as runs from cortex.job_run
  where status = 'RUNNING' and worker_id is not null
  group by queue, job_type, tenant_id
), reserved as materialized (
  select d.queue, d.job_id, d.expires_at from cortex.direct_reservation d
  where d.status = 'ACTIVE' and d.queue in (select value from json_each(:queues))
), open_queue as materialized (
  select q.value as name, coalesce(c.fair_share, 0) as fair,
    coalesce(c.max_running, 1000000) - (select coalesce(sum(runs), 0) from running where queue = q.value) as room
  from json_each(:queues) q
  left join cortex.control c on c.scope = 'queue' and c.name = q.value
  where c.paused is not 1
), open_agent as materialized (
  select t.value as name,
    coalesce(c.max_running, 1000000) - (select coalesce(sum(runs), 0) from running where job_type = t.value) as room
  from json_each(:job_types) t
  left join cortex.control c on c.scope = 'agent' and c.name = t.value
  where c.paused is not 1
), steered_tenant as materialized (
  select c.name as id, iif(c.paused, 0,
    coalesce(c.max_running, 1000000) - (select coalesce(sum(runs), 0) from running where tenant_id = c.name and queue <> 'cortex')) as room
  from cortex.control c
  where c.scope = 'tenant' and (c.paused or c.max_running is not null)
), lane as materialized (
  select q.name as queue, t.name as job_type, q.fair, min(q.room, t.room) as room
  from open_queue q
  join open_agent t on (q.name = 'cortex') = (t.name glob 'cortex.*')
  where q.room > 0 and t.room > 0 and q.name not in (select queue from reserved)
), waiting_tenant (queue, job_type, tenant_id) as (
  select queue, job_type, (
    select e.tenant_id from cortex.queue_entry e
    where e.queue = lane.queue and e.job_type = lane.job_type and e.state = 'ready' and e.by_tenant = 1
    order by e.tenant_id limit 1)
  from lane
  union all
  select w.queue, w.job_type, (
    select e.tenant_id from cortex.queue_entry e
    where e.queue = w.queue and e.job_type = w.job_type and e.state = 'ready' and e.by_tenant = 1 and e.tenant_id > w.tenant_id
    order by e.tenant_id limit 1)
  from waiting_tenant w
  where w.tenant_id is not null
), found (job_id, fair) as (
  select c.value, l.fair
  from lane l
  cross join json_each((
    select json_group_array(job_id) from (
      select e.job_id from cortex.queue_entry e
      where e.queue = l.queue and e.job_type = l.job_type and e.state = 'ready' and e.by_tenant = 0
      order by e.rank, e.position, e.created_at, e.job_id
      limit :limit))) c
  union all
  select c.value, l.fair
  from lane l
  join waiting_tenant w on w.queue = l.queue and w.job_type = l.job_type and w.tenant_id is not null
  left join steered_tenant s on s.id = w.tenant_id
  cross join json_each((
    select json_group_array(job_id) from (
      select e.job_id from cortex.queue_entry e
      where e.queue = l.queue and e.job_type = l.job_type and e.tenant_id = w.tenant_id and e.state = 'ready' and e.by_tenant = 1
      order by e.rank, e.position, e.created_at, e.job_id
      limit :limit))) c
  where coalesce(s.room, 1) > 0
), candidate as materialized (
  select f.fair, e.job_id, e.tenant_id, e.queue, e.job_type, e.rank, e.position, e.created_at, e.alone
  from found f
  cross join cortex.queue_entry e on e.job_id = f.job_id
  where e.by_tenant = 1 or e.queue = 'cortex' or e.tenant_id not in (select id from steered_tenant)
), turned as (
  select c.*, iif(c.fair,
    row_number() over (partition by c.queue, c.tenant_id order by c.rank, c.position, c.created_at, c.job_id)
    + max(
      coalesce((select served from cortex.fair_turn f where f.queue = c.queue and f.tenant_id = c.tenant_id), 0),
      coalesce((select served from cortex.fair_turn f
        where f.queue = c.queue and f.tenant_id = '00000000-0000-0000-0000-000000000000'), 0)), 0) as turn
  from candidate c
), occupant as (
  select t.*, row_number() over (partition by t.queue order by t.turn, t.rank, t.position, t.created_at, t.job_id) as place
  from turned t
), seat as (
  select queue, rank, position, created_at, job_id as tie,
    row_number() over (partition by queue order by rank, position, created_at, job_id) as place
  from candidate
), seated as (
  select o.job_id, o.queue, o.job_type, o.tenant_id, o.alone, s.rank, s.position, s.created_at, s.tie, o.place as in_queue
  from occupant o
  join seat s on s.queue = o.queue and s.place = o.place
), admitted as (
  select s.*,
    row_number() over (partition by s.job_type order by s.rank, s.position, s.created_at, s.tie) as in_agent,
    row_number() over (partition by s.tenant_id order by s.rank, s.position, s.created_at, s.tie) as in_tenant
  from seated s
), ordered as (
  select a.job_id, a.queue, a.tenant_id, a.alone, a.rank, a.position, a.created_at, a.tie
  from admitted a
  join open_queue q on q.name = a.queue
  join open_agent t on t.name = a.job_type
  left join steered_tenant s on s.id = a.tenant_id
  where a.in_queue <= q.room and a.in_agent <= t.room and (a.queue = 'cortex' or a.in_tenant <= coalesce(s.room, 1000000))
), direct as (
  select e.job_id, e.queue, e.tenant_id
  from reserved r
  join open_queue q on q.name = r.queue
  join cortex.queue_entry e on e.job_id = r.job_id
  join open_agent t on t.name = e.job_type
  where e.state = 'ready' and r.expires_at > :now and r.queue not in (select queue from running)
)
select job_id, queue, tenant_id, alone from (
  select job_id, queue, tenant_id, 1 as alone, 0 as kind, 0 as rank, 0 as position, 0 as created_at, '' as tie from direct
  union all
  select job_id, queue, tenant_id, alone, 1, rank, position, created_at, tie from ordered)
order by kind, rank, position, created_at, tie
limit :limit;
