-- name: add [postgres]
-- Adds a grant.
-- Differs: instants are converted here.
insert into cortex.execution_grant (id, tenant_id, user_account_id, billing_account_id, scopes, expires_at, max_uses, created_by)
values (cast(:id as uuid), cast(:tenant_id as uuid), cast(:user_account_id as uuid), cast(:billing_account_id as uuid),
  cast(:scopes as jsonb), cortex.instant(cast(:expires_at as bigint)), cast(:max_uses as int), cast(:created_by as text));

-- name: add [sqlite]
-- Adds a grant.
-- Differs: instants are converted there.
insert into cortex.execution_grant
  (id, tenant_id, user_account_id, billing_account_id, scopes, expires_at, max_uses, created_by, created_at)
values (:id, :tenant_id, :user_account_id, :billing_account_id, :scopes, :expires_at, :max_uses, :created_by, :now);

-- name: called [postgres]
-- What these jobs have called, and has not ended.
-- Differs: a list of ids is an array here, so that the index is used.
select id from cortex.job
where parent_id = any (array(select cast(value as uuid) from jsonb_array_elements_text(cast(:ids as jsonb))))
  and status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL');

-- name: called [sqlite]
-- What these jobs have called, and has not ended.
-- Differs: a list of ids is JSON here.
select id from cortex.job
where parent_id in (select value from json_each(:ids))
  and status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL');

-- name: cancel_slots
-- The slots under a grant that have not ended, end.
update cortex.schedule_run
set status = 'error', error_code = 'grant_revoked', error_message = :message, completed_at = :now
where schedule_id in (select id from cortex.schedule where grant_id = :grant_id)
  and (status = 'pending' or status = 'running')
returning id;

-- name: find
-- At most five grants whose ids begin alike.
-- With a tenant, only its own among the newest :looked_at that begin so: others' count for nothing, and no search is long.
select id
from (
  select id, tenant_id
  from cortex.execution_grant
  where id between :low and :high
  order by id desc
  limit :looked_at
) as newest
where cast(:tenant_id as text) is null or cast(tenant_id as text) = cast(:tenant_id as text)
order by id
limit 5;

-- name: get
-- One grant as it stands.
select g.id, g.tenant_id, t.name as tenant, g.user_account_id, g.billing_account_id, b.name as billing_account, g.scopes, g.expires_at,
  g.max_uses, g.uses, g.revoked_at, g.revoked_by, g.revoke_reason, g.created_by, g.created_at
from cortex.execution_grant g
join cortex.tenant t on t.id = g.tenant_id
join cortex.billing_account b on b.id = g.billing_account_id
where g.id = :id;

-- name: list
-- All grants, or those of one tenant, newest first.
select g.id, g.tenant_id, t.name as tenant, g.user_account_id, g.billing_account_id, b.name as billing_account, g.scopes, g.expires_at,
  g.max_uses, g.uses, g.revoked_at, g.revoked_by, g.revoke_reason, g.created_by, g.created_at
from cortex.execution_grant g
join cortex.tenant t on t.id = g.tenant_id
join cortex.billing_account b on b.id = g.billing_account_id
where cast(:tenant_id as text) is null or cast(g.tenant_id as text) = cast(:tenant_id as text)
order by g.id desc
limit :limit;

-- name: live_jobs
-- Every job that has not ended of a grant's schedules, and of the runs under it: children and what was run again included.
select j.id from cortex.job j
where j.schedule_id in (select s.id from cortex.schedule s where s.grant_id = :grant_id)
  and j.status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL')
union
select j.id from cortex.job j
where j.request_id in (select r.id from cortex.execution_request r where r.grant_id = :grant_id)
  and j.status in ('PENDING', 'RUNNING', 'RETRY', 'WAITING_FOR_APPROVAL');

-- name: lock [postgres]
-- Locks a grant, so that it is neither revoked nor used by others meanwhile. No row means that there is none.
-- Differs: the lock.
select id
from cortex.execution_grant
where id = cast(:id as uuid)
for update;

-- name: lock [sqlite]
-- Finds a grant. No row means that there is none.
-- Differs: whoever writes is alone, so there is nothing to lock.
select id
from cortex.execution_grant
where id = :id;

-- name: page
-- The grants of one tenant before one of them, newest first.
select g.id, g.tenant_id, t.name as tenant, g.user_account_id, g.billing_account_id, b.name as billing_account, g.scopes, g.expires_at,
  g.max_uses, g.uses, g.revoked_at, g.revoked_by, g.revoke_reason, g.created_by, g.created_at
from cortex.execution_grant g
join cortex.tenant t on t.id = g.tenant_id
join cortex.billing_account b on b.id = g.billing_account_id
where g.tenant_id = :tenant_id and g.id < :before
order by g.id desc
limit :limit;

-- name: revoke
-- Takes a grant back. No row means that it was.
update cortex.execution_grant
set revoked_at = :now, revoked_by = :actor, revoke_reason = :reason
where id = :id and revoked_at is null
returning id;

-- name: revoke_if_unused
-- Takes a grant back that has served one schedule alone: no other schedule, and no run of anybody else.
update cortex.execution_grant
set revoked_at = :now, revoked_by = :actor, revoke_reason = :reason
where id = :id
  and revoked_at is null
  and not exists (select 1 from cortex.schedule s where s.grant_id = :id and s.id <> :schedule_id and s.removed_at is null)
  and not exists (
    select 1 from cortex.execution_request r
    where r.grant_id = :id and r.idempotency_key not like cast(:schedule_id as text) || ':%')
returning id;

-- name: use
-- Counts one run under a grant that is good for it. No row means that it is not, or no longer.
update cortex.execution_grant
set uses = uses + 1
where id = :id
  and revoked_at is null
  and (expires_at is null or expires_at > :now)
  and (max_uses is null or uses < max_uses)
returning id;
