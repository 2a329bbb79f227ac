-- name: forget
-- A job that has ended, or that an operator releases (:always), may be tried with any code.
delete from cortex.job_hold
where job_id = :job_id
  and (:always or exists (select 1 from cortex.job j where j.id = job_hold.job_id and j.finished_at is not null))
returning job_id;

-- name: lock_entry [postgres]
-- Locks the place of a held job in the queue; no row when a claim has it.
-- Differs: rows are locked.
select job_id
from cortex.queue_entry
where job_id = :job_id
  and state = 'later'
for update skip locked;

-- name: lock_entry [sqlite]
-- The place of a held job in the queue.
-- Differs: there is one writer, and nothing to lock.
select job_id
from cortex.queue_entry
where job_id = :job_id
  and state = 'later';

-- name: make_due [postgres]
-- Makes a held job due at once.
-- Differs: the later of two instants.
update cortex.job
set next_retry_at = greatest(:now, updated_at),
  updated_at = greatest(:now, updated_at)
where id = :job_id
  and status = 'RETRY'
  and wait_reason = 'code_changed'
returning id, next_retry_at;

-- name: make_due [sqlite]
-- Makes a held job due at once.
-- Differs: the later of two instants.
update cortex.job
set next_retry_at = max(:now, updated_at),
  updated_at = max(:now, updated_at)
where id = :job_id
  and status = 'RETRY'
  and wait_reason = 'code_changed'
returning id, next_retry_at;

-- name: make_entry_due
-- The same for its place in the queue; whoever promotes what is due makes it ready.
update cortex.queue_entry
set due_at = :due_at
where job_id = :job_id
  and state = 'later';

-- name: offer [postgres]
-- Notes that a held job was offered to workers with this code.
-- Differs: a list in a row is jsonb.
update cortex.job_hold
set offered = offered || to_jsonb(cast(:code as text))
where job_id = :job_id
  and not offered ? cast(:code as text);

-- name: offer [sqlite]
-- Notes that a held job was offered to workers with this code.
-- Differs: a list in a row is JSON.
update cortex.job_hold
set offered = json_insert(offered, '$[#]', :code)
where job_id = :job_id
  and not exists (select 1 from json_each(offered) o where o.value = :code);

-- name: waiting [postgres]
-- Held jobs that code of these fingerprints was not tried on, at most :limit; and jobs that were held once and have ended.
-- Differs: lists are arrays, and a list in a row is jsonb.
select h.job_id, c.code
from unnest(cast(:job_types as text[]), cast(:codes as text[])) as c(job_type, code)
join cortex.job_hold h on h.job_type = c.job_type
join cortex.job j on j.id = h.job_id
where not h.codes ? c.code
  and not h.offered ? c.code
  and (j.finished_at is not null or j.status = 'RETRY' and j.wait_reason = 'code_changed')
order by h.job_id
limit :limit;

-- name: waiting [sqlite]
-- Held jobs that code of these fingerprints was not tried on, at most :limit; and jobs that were held once and have ended.
-- Differs: lists are JSON.
select h.job_id, c.value as code
from json_each(:job_types) t
join json_each(:codes) c on c.key = t.key
join cortex.job_hold h on h.job_type = t.value
join cortex.job j on j.id = h.job_id
where not exists (select 1 from json_each(h.codes) k where k.value = c.value)
  and not exists (select 1 from json_each(h.offered) o where o.value = c.value)
  and (j.finished_at is not null or j.status = 'RETRY' and j.wait_reason = 'code_changed')
order by h.job_id
limit :limit;
