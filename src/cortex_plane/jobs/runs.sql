-- name: asked_to_end [postgres]
-- Those of some open runs whose jobs were asked to end, with how.
-- Differs: a list of ids is an array here.
select j.run_id, j.cancel_request
from unnest(cast(:job_ids as uuid[]), cast(:run_ids as uuid[])) as w(job_id, run_id)
join cortex.job j on j.id = w.job_id and j.run_id = w.run_id
where j.cancel_requested_at is not null;

-- name: asked_to_end [sqlite]
-- Those of some open runs whose jobs were asked to end, with how.
-- Differs: a list of ids is JSON here.
select j.run_id, j.cancel_request
from json_each(:job_ids) w
join json_each(:run_ids) r on r.key = w.key
join cortex.job j on j.id = w.value and j.run_id = r.value
where j.cancel_requested_at is not null;

-- name: broken
-- Of one page of jobs, those that are RUNNING though their run is closed or missing.
-- The triggers make that impossible; a damaged database may hold it.
select j.id as job_id, j.run_id, j.job_type, j.queue, j.tenant_id, j.payload, j.attempt, j.retry_count, j.max_retries, j.crash_count,
  j.retry_policy, j.timeout_seconds, j.failed_runs, j.cleanup_seconds, j.cancel_request,
  null as seconds_left,
  j.checkpoint is not null as resumes,
  j.effect_root,
  j.worker_id, r.status as run_status, r.error as run_error, a.skill_config as agent_config
from cortex.job j
left join cortex.job_run r on r.job_id = j.id and r.id = j.run_id
join cortex.agent a on a.id = j.agent_id
where j.id > :after
  and j.id <= :last
  and j.status = 'RUNNING'
  and (r.id is null or r.status <> 'RUNNING')
order by j.id
limit :limit;

-- name: closed [postgres]
-- Those of some runs that are closed, with who closed them.
-- Differs: a list of ids is an array here.
select r.job_id, r.id as run_id, r.status, r.closed_by
from unnest(cast(:job_ids as uuid[]), cast(:run_ids as uuid[])) as w(job_id, run_id)
join cortex.job_run r on r.job_id = w.job_id and r.id = w.run_id
where r.status <> 'RUNNING';

-- name: closed [sqlite]
-- Those of some runs that are closed, with who closed them.
-- Differs: a list of ids is JSON here.
select r.job_id, r.id as run_id, r.status, r.closed_by
from json_each(:job_ids) j
join json_each(:run_ids) w on w.key = j.key
join cortex.job_run r on r.job_id = j.value and r.id = w.value
where r.status <> 'RUNNING';

-- name: crashed
-- One open run whose process died though its worker lives, with what is needed to decide about its job.
select j.id as job_id, j.run_id, j.job_type, j.queue, j.tenant_id, j.payload, j.attempt, j.retry_count, j.max_retries, j.crash_count,
  j.retry_policy, j.timeout_seconds, j.failed_runs, j.cleanup_seconds, j.cancel_request, null as seconds_left,
  j.checkpoint is not null as resumes,
  j.effect_root,
  r.worker_id, j.checkpoint_id, j.error ->> 'checkpoint_id' as crashed_at,
  a.skill_config as agent_config
from cortex.job j
join cortex.open_run r on r.job_id = j.id and r.id = j.run_id
join cortex.agent a on a.id = j.agent_id
where j.id = :job_id and r.id = :run_id;

-- name: find
-- Runs whose ids begin with a prefix: any that has not ended, and of the others those among the newest :looked_at.
-- With a tenant, only its own.
select job_id, id
from cortex.job_run
where status = 'RUNNING'
  and id between :low and :high
  and (cast(:tenant_id as text) is null or cast(tenant_id as text) = cast(:tenant_id as text))
union
select job_id, id
from (
  select job_id, id, tenant_id
  from cortex.job_run
  where job_id < :before
  order by job_id desc, id desc
  limit :looked_at
) as newest
where id between :low and :high
  and (cast(:tenant_id as text) is null or cast(tenant_id as text) = cast(:tenant_id as text))
order by id
limit 5;

-- name: finish [postgres]
-- Applies a batch of transitions out of RUNNING, each fenced by its run id, and returns the ids that applied.
-- Differs: a function fixes the plan, so that a growing table cannot turn it into a scan.
select cortex.finish(:actor, cast(:batch as jsonb)) as id;

-- name: finish [sqlite]
-- Applies a batch of transitions out of RUNNING, each fenced by its run id, and returns the ids that applied.
-- Differs: a batch is jsonb_each here.
update cortex.job as j
set status = c.value ->> 'status',
  output = nullif(c.value -> 'output', 'null'),
  output_blob = c.value ->> 'output_blob',
  error = nullif(c.value -> 'error', 'null'),
  error_message = c.value ->> 'error_message',
  wait_reason = c.value ->> 'wait_reason',
  next_retry_at = iif(c.value ->> 'status' = 'RETRY', :now + cast(round(1000000 * (c.value ->> 'delay_seconds')) as integer), null),
  worker_job_id = null,
  retry_count = c.value ->> 'retry_count',
  crash_count = c.value ->> 'crash_count',
  failed_runs = j.failed_runs + iif(c.value ->> 'wait_reason' in ('retry', 'worker_lost'), 1, 0),
  cost_cents = j.cost_cents + coalesce(c.value ->> 'cost_cents', 0),
  run_id = null,
  worker_id = null,
  updated_at = max(:now, j.updated_at),
  finished_at = iif(c.value ->> 'status' = 'RETRY', null, max(:now, j.updated_at)),
  revision = j.revision + 1,
  cause = c.value ->> 'cause',
  actor = :actor,
  note = nullif(c.value -> 'note', 'null'),
  checkpoint = coalesce(c.value ->> 'checkpoint', j.checkpoint),
  checkpoint_id = coalesce(c.value ->> 'checkpoint_id', j.checkpoint_id)
from jsonb_each(:batch) c
where j.id = c.value ->> 'job_id'
  and j.run_id = c.value ->> 'run_id'
returning id;

-- name: get
-- One run of one job.
select id, job_id, attempt, worker_id, status, started_at, finished_at, exit_code, error, error_details, artifacts, log_path, params_snapshot
from cortex.job_run
where job_id = :job_id
  and id = :id;

-- name: save_output
-- Keeps what the handler of a run returned apart from its job, for the transition that will refer to it; once.
insert into cortex.job_blob (job_id, sha256, content, created_at)
select j.id, cast(:digest as text), cast(:content as text), :now
from cortex.job j
where j.id = :job_id
  and j.run_id = :run_id
  and not exists (select 1 from cortex.job_blob b where b.job_id = j.id and b.sha256 = :digest);

-- name: list_open
-- Runs that have not ended, newest first, of a tenant and of a worker where that is asked for.
select r.id, r.job_id, r.attempt, r.worker_id, r.status, r.started_at, r.finished_at, r.exit_code, r.error, r.error_details, r.artifacts,
  r.log_path, r.params_snapshot
from (
  select id, job_id
  from cortex.open_run
  where id < :before
    and queue <> 'cortex'
    and (cast(:tenant_id as text) is null or cast(tenant_id as text) = cast(:tenant_id as text))
    and (cast(:worker_id as text) is null or cast(worker_id as text) = cast(:worker_id as text))
  order by id desc
  limit :limit) newest
join cortex.job_run r on r.job_id = newest.job_id and r.id = newest.id
order by r.id desc;

-- name: of_lost_workers
-- Open runs whose worker was declared LOST, a small batch, with what is needed to decide about their jobs.
select j.id as job_id, j.run_id, j.job_type, j.queue, j.tenant_id, j.payload, j.attempt, j.retry_count, j.max_retries, j.crash_count,
  j.retry_policy, j.timeout_seconds, j.failed_runs, j.cleanup_seconds, j.cancel_request,
  null as seconds_left,
  j.checkpoint is not null as resumes,
  j.effect_root,
  r.worker_id, j.checkpoint_id, j.error ->> 'checkpoint_id' as crashed_at,
  a.skill_config as agent_config
from cortex.worker w
cross join cortex.open_run r
cross join cortex.job j
cross join cortex.agent a
where w.status = 'LOST'
  and w.ended_at is null
  and r.worker_id = w.id
  and j.id = r.job_id
  and j.run_id = r.id
  and a.id = j.agent_id
order by r.id
limit :limit;

-- name: open [postgres]
-- The open runs of a worker among those that it asked for: what a claim whose answer was lost has brought.
-- Differs: a list of ids is an array here.
select j.id as job_id, j.run_id, j.job_type, j.queue, j.tenant_id, j.payload, j.attempt, j.retry_count, j.max_retries, j.crash_count,
  j.retry_policy, j.timeout_seconds, j.failed_runs, j.cleanup_seconds, j.cancel_request,
  extract(epoch from j.deadline_at - :now)::double precision as seconds_left,
  j.checkpoint is not null as resumes,
  j.effect_root
from cortex.open_run r
join cortex.job j on j.id = r.job_id and j.run_id = r.id
where r.worker_id = cast(:worker_id as uuid)
  and coalesce(cast(j.note ->> 'claimed_as' as uuid), r.id) = any (cast(:run_ids as uuid[]));

-- name: open [sqlite]
-- The open runs of a worker among those that it asked for: what a claim whose answer was lost has brought.
-- Differs: a list of ids is JSON here.
select j.id as job_id, j.run_id, j.job_type, j.queue, j.tenant_id, j.payload, j.attempt, j.retry_count, j.max_retries, j.crash_count,
  j.retry_policy, j.timeout_seconds, j.failed_runs, j.cleanup_seconds, j.cancel_request,
  (j.deadline_at - :now) / 1000000.0 as seconds_left,
  j.checkpoint is not null as resumes,
  j.effect_root
from cortex.open_run r
join cortex.job j on j.id = r.job_id and j.run_id = r.id
where r.worker_id = :worker_id
  and coalesce(j.note ->> 'claimed_as', r.id) in (select value from json_each(:run_ids));

-- name: open_missing [postgres]
-- Opens the run that a RUNNING job lacks, so that it can be closed as any other.
-- Differs: open runs have a table of their own.
with opened as (
  insert into cortex.job_run
    (id, job_id, attempt, worker_id, tenant_id, queue, job_type, serial_key, template_id, params_snapshot, started_at)
  select j.run_id, j.id, j.attempt, j.worker_id, j.tenant_id, j.queue, j.job_type, j.serial_key, j.template_id, j.payload, j.updated_at
  from cortex.job j
  where j.id = :id
    and j.status = 'RUNNING'
    and not exists (select 1 from cortex.job_run r where r.job_id = j.id and r.id = j.run_id)
  returning job_id, id, worker_id, tenant_id, queue, job_type, serial_key
)
insert into cortex.open_run (job_id, id, worker_id, tenant_id, queue, job_type, serial_key)
select job_id, id, worker_id, tenant_id, queue, job_type, serial_key from opened
on conflict (job_id) do nothing;

-- name: open_missing [sqlite]
-- Opens the run that a RUNNING job lacks, so that it can be closed as any other.
-- Differs: open runs are a view here.
insert into cortex.job_run
  (id, job_id, attempt, worker_id, tenant_id, queue, job_type, serial_key, template_id, params_snapshot, started_at)
select j.run_id, j.id, j.attempt, j.worker_id, j.tenant_id, j.queue, j.job_type, j.serial_key, j.template_id, j.payload, j.updated_at
from cortex.job j
where j.id = :id
  and j.status = 'RUNNING'
  and not exists (select 1 from cortex.job_run r where r.job_id = j.id and r.id = j.run_id);

-- name: pick
-- Those of the runs between two places that are as asked for. The plane's own are left out.
select id, job_id, attempt, worker_id, status, started_at, finished_at, exit_code, error, error_details, artifacts, log_path, params_snapshot
from cortex.job_run
where (job_id, id) < (:before_job_id, :before_id)
  and (job_id, id) >= (:last_job_id, :last_id)
  and queue <> 'cortex'
  and (cast(:tenant_id as text) is null or cast(tenant_id as text) = cast(:tenant_id as text))
  and (cast(:status as text) is null or cast(status as text) = cast(:status as text))
  and (cast(:worker_id as text) is null or cast(worker_id as text) = cast(:worker_id as text))
order by job_id desc, id desc
limit :limit;

-- name: places
-- Where the next :limit runs are, those of the newest jobs first.
select job_id, id
from cortex.job_run
where (job_id, id) < (:job_id, :id)
order by job_id desc, id desc
limit :limit;

-- name: stranded
-- Open runs that nobody will end: no worker owns them and no queue entry offers them, or their worker is unknown or has ended.
-- A raw update from PENDING to RUNNING makes such a run.
select j.id as job_id, j.run_id, j.job_type, j.queue, j.tenant_id, j.payload, j.attempt, j.retry_count, j.max_retries, j.crash_count,
  j.retry_policy, j.timeout_seconds, j.failed_runs, j.cleanup_seconds, j.cancel_request,
  null as seconds_left,
  j.checkpoint is not null as resumes,
  j.effect_root,
  r.worker_id, j.checkpoint_id, j.error ->> 'checkpoint_id' as crashed_at,
  a.skill_config as agent_config
from cortex.job_run r
join cortex.job j on j.id = r.job_id and j.run_id = r.id
join cortex.agent a on a.id = j.agent_id
left join cortex.worker w on w.id = r.worker_id
where r.status = 'RUNNING'
  and (w.id is null or w.ended_at is not null)
  and (r.worker_id is not null or not exists (select 1 from cortex.queue_entry e where e.job_id = r.job_id))
order by r.id
limit :limit;

-- name: trace
-- The trace that a job belongs to, and that of the job that it retries.
select trace_id, (select p.trace_id from cortex.job p where p.id = j.retry_of) as retried
from cortex.job j
where j.id = :id;
