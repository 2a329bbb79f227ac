-- name: add
-- Inserts the request that a job waits for.
insert into cortex.approval_request (
  id, job_id, run_id, tenant_id, gate_key, token_hash, requested_by_agent_id, approver_user_account_id, designated, approvers,
  escalate_to, action_summary, action_details, digest, quorum, no_self_approval, editable, on_expiry, default_value, on_denial,
  supersedes, ttl_seconds, remind_after_seconds, remind_at, escalate_at, expires_at, created_at)
values (
  :id, :job_id, :run_id, :tenant_id, :gate_key, :token_hash, :agent_id, :approver_id, :designated, :approvers,
  :escalate_to, :action_summary, :action_details, :digest, :quorum, :no_self_approval, :editable, :on_expiry, :default_value,
  :on_denial, :supersedes, :ttl_seconds, :remind_after_seconds, :remind_at, :escalate_at, :expires_at, :created_at);

-- name: ask_group
-- Adds a group to the approvers of a request.
insert into cortex.approval_approver (approval_request_id, user_group_id, escalated)
values (:request_id, :group_id, :escalated);

-- name: ask_user
-- Adds a user to the approvers of a request.
insert into cortex.approval_approver (approval_request_id, user_account_id, escalated)
values (:request_id, :user_id, :escalated);

-- name: by_token
-- Returns the request and the addressee of a token.
select approval_request_id, user_account_id
from cortex.approval_token
where token_hash = :token_hash
  and replaced_at is null;

-- name: count_votes
-- Counts the approvals of a request. A separate statement after the insert of the vote, so that it sees all committed votes.
update cortex.approval_request
set votes = (
  select count(*) from cortex.approval_vote v where v.approval_request_id = :id and v.decision = 'approved')
where id = :id
returning votes;

-- name: deciders [postgres]
-- Counts the users who can still decide open requests, now or after escalation.
-- Differs: lists are JSON on SQLite.
select r.id, r.quorum, r.votes, (
  select count(*)
  from cortex.user_account u
  where u.disabled_at is null
    and u.owner_id is null
    and u.id in (
      select p.user_account_id from cortex.approval_approver p
      where p.approval_request_id = r.id and p.user_account_id is not null
      union
      select m.user_account_id from cortex.approval_approver p
      join cortex.group_member m on m.group_id = p.user_group_id
      where p.approval_request_id = r.id
      union
      select cast(e.value as uuid) from jsonb_array_elements_text(r.escalate_to -> 'users') e
      union
      select m.user_account_id from jsonb_array_elements_text(r.escalate_to -> 'groups') e
      join cortex.group_member m on m.group_id = cast(e.value as uuid)
      union
      select o.user_account_id from cortex.user_role o
      where not r.designated and o.role = 'approver' and (o.tenant_id is null or o.tenant_id = r.tenant_id))
    and not exists (select 1 from cortex.approval_vote v where v.approval_request_id = r.id and v.user_account_id = u.id)
    and not (r.no_self_approval
      and exists (select 1 from cortex.job_submitter s where s.job_id = r.job_id and s.user_account_id = u.id))) as can_decide
from cortex.approval_request r
where r.id = any (cast(:ids as uuid[]))
  and r.outcome is null;

-- name: deciders [sqlite]
-- Counts the users who can still decide open requests, now or after escalation.
-- Differs: lists are JSON on SQLite.
select r.id, r.quorum, r.votes, (
  select count(*)
  from cortex.user_account u
  where u.disabled_at is null
    and u.owner_id is null
    and u.id in (
      select p.user_account_id from cortex.approval_approver p
      where p.approval_request_id = r.id and p.user_account_id is not null
      union
      select m.user_account_id from cortex.approval_approver p
      join cortex.group_member m on m.group_id = p.user_group_id
      where p.approval_request_id = r.id
      union
      select e.value from json_each(r.escalate_to, '$.users') e
      union
      select m.user_account_id from json_each(r.escalate_to, '$.groups') e join cortex.group_member m on m.group_id = e.value
      union
      select o.user_account_id from cortex.user_role o
      where not r.designated and o.role = 'approver' and (o.tenant_id is null or o.tenant_id = r.tenant_id))
    and not exists (select 1 from cortex.approval_vote v where v.approval_request_id = r.id and v.user_account_id = u.id)
    and not (r.no_self_approval
      and exists (select 1 from cortex.job_submitter s where s.job_id = r.job_id and s.user_account_id = u.id))) as can_decide
from cortex.approval_request r
where r.id in (select value from json_each(:ids))
  and r.outcome is null;

-- name: due [postgres]
-- Returns open, unexpired requests whose escalation or reminder is due.
-- Differs: skips locked rows, so that they never block the others.
-- `+ interval '0'` keeps the planner from the index on expires_at, which lists every open request.
select id, purpose
from (
  select * from (
    select id, 'escalate' as purpose, escalate_at as at from cortex.approval_request
    where outcome is null and escalate_at is not null and escalate_at <= :now and expires_at + interval '0' > :now
      and id <> all(:passed_over)
    order by escalate_at
    limit :limit
    for update skip locked) escalation
  union all
  select * from (
    select id, 'remind' as purpose, remind_at as at from cortex.approval_request
    where outcome is null and remind_at is not null and remind_at <= :now and expires_at + interval '0' > :now
      and id <> all(:passed_over)
    order by remind_at
    limit :limit
    for update skip locked) reminder
) d
order by at, purpose
limit :limit;

-- name: due [sqlite]
-- Returns open, unexpired requests whose escalation or reminder is due.
-- Differs: there are no row locks.
select id, purpose
from (
  select * from (
    select id, 'escalate' as purpose, escalate_at as at from cortex.approval_request
    where outcome is null and escalate_at is not null and escalate_at <= :now and expires_at > :now
      and id not in (select value from json_each(:passed_over))
    order by escalate_at
    limit :limit) escalation
  union all
  select * from (
    select id, 'remind' as purpose, remind_at as at from cortex.approval_request
    where outcome is null and remind_at is not null and remind_at <= :now and expires_at > :now
      and id not in (select value from json_each(:passed_over))
    order by remind_at
    limit :limit) reminder
) d
order by at, purpose
limit :limit;

-- name: escalate
-- Marks an open request as escalated. No row: escalation is not due.
update cortex.approval_request
set escalated_at = :now,
  escalate_at = null
where id = :id
  and outcome is null
  and expires_at > :now
  and escalate_at <= :now
returning id, tenant_id, job_id, escalate_to;

-- name: expired [postgres]
-- Returns expired open requests, oldest first.
-- Differs: skips locked rows, so that they never block the others.
select r.id
from cortex.approval_request r
join cortex.job j on j.id = r.job_id
where r.outcome is null
  and r.expires_at <= :now
  and r.id <> all(:passed_over)
order by r.expires_at
limit :limit
for update of j, r skip locked;

-- name: expired [sqlite]
-- Returns expired open requests, oldest first.
-- Differs: there are no row locks.
select id
from cortex.approval_request
where outcome is null
  and expires_at <= :now
  and id not in (select value from json_each(:passed_over))
order by expires_at
limit :limit;

-- name: fail_job [postgres]
-- Fails the job that waits for this request.
-- Differs: the name of the function that takes the later of two instants.
update cortex.job
set status = 'FAILED',
  approval_token = null,
  approval_expires_at = null,
  error = :error,
  error_message = :error_message,
  updated_at = greatest(:now, updated_at),
  finished_at = greatest(:now, updated_at),
  revision = revision + 1,
  cause = :cause,
  actor = :actor,
  note = :note
where id = :job_id
  and status = 'WAITING_FOR_APPROVAL'
  and approval_token = :token_hash
returning updated_at as at;

-- name: fail_job [sqlite]
-- Fails the job that waits for this request.
-- Differs: the name of the function that takes the later of two instants.
update cortex.job
set status = 'FAILED',
  approval_token = null,
  approval_expires_at = null,
  error = :error,
  error_message = :error_message,
  updated_at = max(:now, updated_at),
  finished_at = max(:now, updated_at),
  revision = revision + 1,
  cause = :cause,
  actor = :actor,
  note = :note
where id = :job_id
  and status = 'WAITING_FOR_APPROVAL'
  and approval_token = :token_hash
returning updated_at as at;

-- name: find
-- Returns the ids that begin with a prefix, newest first.
select id
from cortex.approval_request
where id between :low and :high
order by id desc
limit :limit;

-- name: forget_notices
-- Resets the notices of a request, so that a reminder goes to every approver who can still vote.
delete from cortex.approval_notice
where approval_request_id = :id;

-- name: get [postgres]
-- Returns requests by id, newest first.
-- Differs: a list of ids is an array here.
select r.id, r.job_id, r.run_id, r.tenant_id, r.gate_key, r.token_hash, r.requested_by_agent_id, a.job_type as agent, r.designated,
  r.approvers, r.escalate_to, r.notification_channels, r.action_summary, r.action_details, r.digest, r.quorum, r.votes,
  r.no_self_approval, r.editable, r.on_expiry, r.default_value, r.on_denial, r.decision, r.decided_by,
  coalesce(u.display_name, u.name) as decided_by_name, r.reason, r.edited_details, r.used_at, r.outcome, r.closed_at,
  r.ttl_seconds, r.remind_at, r.reminders, r.escalate_at, r.escalated_at, r.expires_at, r.created_at,
  r.expires_at <= :now as expired, r.supersedes, s.job_id as superseded_job_id, s.action_summary as superseded_summary,
  s.outcome as superseded_outcome, coalesce(v.display_name, v.name) as superseded_by_name, s.closed_at as superseded_closed_at
from cortex.approval_request r
join cortex.agent a on a.id = r.requested_by_agent_id
left join cortex.user_account u on u.id = r.decided_by
left join cortex.approval_request s on s.id = r.supersedes
left join cortex.user_account v on v.id = s.decided_by
where r.id = any (cast(:ids as uuid[]))
order by r.id desc;

-- name: get [sqlite]
-- Returns requests by id, newest first.
-- Differs: a list of ids is JSON here.
select r.id, r.job_id, r.run_id, r.tenant_id, r.gate_key, r.token_hash, r.requested_by_agent_id, a.job_type as agent, r.designated,
  r.approvers, r.escalate_to, r.notification_channels, r.action_summary, r.action_details, r.digest, r.quorum, r.votes,
  r.no_self_approval, r.editable, r.on_expiry, r.default_value, r.on_denial, r.decision, r.decided_by,
  coalesce(u.display_name, u.name) as decided_by_name, r.reason, r.edited_details, r.used_at, r.outcome, r.closed_at,
  r.ttl_seconds, r.remind_at, r.reminders, r.escalate_at, r.escalated_at, r.expires_at, r.created_at,
  r.expires_at <= :now as expired, r.supersedes, s.job_id as superseded_job_id, s.action_summary as superseded_summary,
  s.outcome as superseded_outcome, coalesce(v.display_name, v.name) as superseded_by_name, s.closed_at as superseded_closed_at
from cortex.approval_request r
join cortex.agent a on a.id = r.requested_by_agent_id
left join cortex.user_account u on u.id = r.decided_by
left join cortex.approval_request s on s.id = r.supersedes
left join cortex.user_account v on v.id = s.decided_by
where r.id in (select value from json_each(:ids))
order by r.id desc;

-- name: resume_job [postgres]
-- Resumes the job that waits for this request, with an open run that no worker owns and a queue entry.
-- Differs: the number of the entry comes from a sequence.
update cortex.job
set status = 'RUNNING',
  run_id = :run_id,
  worker_id = null,
  worker_job_id = nextval('cortex.queue_entry_id'),
  attempt = attempt + 1,
  approval_token = null,
  approval_expires_at = null,
  updated_at = greatest(:now, updated_at),
  revision = revision + 1,
  cause = :cause,
  actor = :actor,
  note = :note
where id = :job_id
  and status = 'WAITING_FOR_APPROVAL'
  and approval_token = :token_hash
returning updated_at as at;

-- name: resume_job [sqlite]
-- Resumes the job that waits for this request, with an open run that no worker owns and a queue entry.
-- Differs: a trigger numbers the entry.
update cortex.job
set status = 'RUNNING',
  run_id = :run_id,
  worker_id = null,
  worker_job_id = null,
  attempt = attempt + 1,
  approval_token = null,
  approval_expires_at = null,
  updated_at = max(:now, updated_at),
  revision = revision + 1,
  cause = :cause,
  actor = :actor,
  note = :note
where id = :job_id
  and status = 'WAITING_FOR_APPROVAL'
  and approval_token = :token_hash
returning updated_at as at;

-- name: list
-- Returns the newest requests before :before, open and closed.
select id
from cortex.approval_request
where id < :before
order by id desc
limit :limit;

-- name: list_for_user
-- Returns the newest open requests before :before that a user may decide and has not voted on.
select r.id
from (
  select a.approval_request_id as id
  from cortex.approval_approver a
  where a.user_account_id = :user_id and a.approval_request_id < :before
  union
  select a.approval_request_id
  from cortex.group_member m
  join cortex.approval_approver a on a.user_group_id = m.group_id
  where m.user_account_id = :user_id and a.approval_request_id < :before
  union
  select o.id
  from cortex.approval_request o
  where o.outcome is null and not o.designated and o.id < :before
    and exists (
      select 1 from cortex.user_role w
      where w.user_account_id = :user_id
        and w.role = 'approver'
        and (w.tenant_id is null or w.tenant_id = o.tenant_id))
) asked
join cortex.approval_request r on r.id = asked.id
join cortex.user_account u on u.id = :user_id
where r.outcome is null
  and r.expires_at > :now
  and u.disabled_at is null
  and u.owner_id is null
  and (cast(:tenant_id as text) is null or cast(r.tenant_id as text) = cast(:tenant_id as text))
  and not exists (
    select 1 from cortex.approval_vote v where v.approval_request_id = r.id and v.user_account_id = u.id)
  and not (r.no_self_approval
    and exists (select 1 from cortex.job_submitter s where s.job_id = r.job_id and s.user_account_id = u.id))
order by r.id desc
limit :limit;

-- name: list_of_job
-- Returns the newest requests of a job before :before.
select id
from cortex.approval_request
where job_id = :job_id
  and id < :before
  and (outcome is null or not cast(:open_only as boolean))
order by id desc
limit :limit;

-- name: list_of_tenant [postgres]
-- Returns the newest requests of a tenant before :before, open and closed.
-- Differs: with an equality, the planner may scan the primary key backwards and discard most rows.
select id
from cortex.approval_request
where tenant_id >= :tenant_id
  and (tenant_id, id) < (:tenant_id, :before)
order by tenant_id desc, id desc
limit (select cast(:limit as bigint));

-- name: list_of_tenant [sqlite]
-- Returns the newest requests of a tenant before :before, open and closed.
-- Differs: an equality always uses its index.
select id
from cortex.approval_request
where tenant_id = :tenant_id
  and id < :before
order by id desc
limit :limit;

-- name: list_open
-- Returns the newest open requests before :before.
-- PostgreSQL estimates that a `case` matches half of the rows; an `or` would read and sort all open requests.
select id
from cortex.approval_request
where outcome is null
  and id < :before
  and case when cast(:tenant_id as text) is null then true else cast(tenant_id as text) = cast(:tenant_id as text) end
order by id desc
limit (select cast(:limit as bigint));

-- name: lock [postgres]
-- Locks a request.
-- Differs: the lock.
select id
from cortex.approval_request
where id = :id
for update;

-- name: lock [sqlite]
-- Returns a request, if it exists.
-- Differs: there is nothing to lock.
select id
from cortex.approval_request
where id = :id;

-- name: lock_job [postgres]
-- Locks the job of a request. Cancel uses the same order: job, then request.
-- Differs: the lock.
select j.id
from cortex.job j
where j.id = (select r.job_id from cortex.approval_request r where r.id = :id)
for update of j;

-- name: lock_job [sqlite]
-- Returns the job of a request.
-- Differs: there is nothing to lock.
select job_id as id
from cortex.approval_request
where id = :id;

-- name: next_due [postgres]
-- Returns the seconds until the next expiry, reminder or escalation; null if no request is open.
-- Differs: how instants are subtracted.
select extract(epoch from min(at) - cortex.now())::double precision as seconds
from (
  select (select expires_at from cortex.approval_request where outcome is null order by expires_at limit 1) as at
  union all
  select (
    select remind_at from cortex.approval_request where outcome is null and remind_at is not null order by remind_at limit 1)
  union all
  select (
    select escalate_at from cortex.approval_request where outcome is null and escalate_at is not null
    order by escalate_at limit 1)
) d;

-- name: next_due [sqlite]
-- Returns the seconds until the next expiry, reminder or escalation; null if no request is open.
-- Differs: how instants are subtracted.
select (min(at) - :now) / 1000000.0 as seconds
from (
  select (select expires_at from cortex.approval_request where outcome is null order by expires_at limit 1) as at
  union all
  select (
    select remind_at from cortex.approval_request where outcome is null and remind_at is not null order by remind_at limit 1)
  union all
  select (
    select escalate_at from cortex.approval_request where outcome is null and escalate_at is not null
    order by escalate_at limit 1)
) d;

-- name: notifications
-- Returns the sent messages of a request, whether it is open, and the current time.
select notification_channels, outcome is null as is_open, :now as at
from cortex.approval_request
where id = :id;

-- name: open_job [postgres]
-- Moves a running job to WAITING_FOR_APPROVAL, fenced by its run id. Returns the times of its request.
-- Differs: how instants are added.
update cortex.job
set status = 'WAITING_FOR_APPROVAL',
  approval_token = :token_hash,
  approval_expires_at = greatest(:now, updated_at) + cast(:ttl_seconds as double precision) * interval '1 second',
  error = null,
  run_id = null,
  worker_id = null,
  worker_job_id = null,
  cost_cents = cost_cents + cast(:cost_cents as bigint),
  checkpoint = coalesce(cast(:checkpoint as json), checkpoint),
  checkpoint_id = coalesce(cast(:checkpoint_id as uuid), checkpoint_id),
  updated_at = greatest(:now, updated_at),
  revision = revision + 1,
  cause = :cause,
  actor = :actor,
  note = :note
where id = :job_id
  and run_id = :run_id
returning session_id, updated_at as created_at, approval_expires_at as expires_at,
  updated_at + cast(:remind_after_seconds as double precision) * interval '1 second' as remind_at,
  updated_at + cast(:escalate_after_seconds as double precision) * interval '1 second' as escalate_at;

-- name: open_job [sqlite]
-- Moves a running job to WAITING_FOR_APPROVAL, fenced by its run id. Returns the times of its request.
-- Differs: how instants are added.
update cortex.job
set status = 'WAITING_FOR_APPROVAL',
  approval_token = :token_hash,
  approval_expires_at = max(:now, updated_at) + cast(round(1000000 * :ttl_seconds) as integer),
  error = null,
  run_id = null,
  worker_id = null,
  worker_job_id = null,
  cost_cents = cost_cents + :cost_cents,
  checkpoint = coalesce(:checkpoint, checkpoint),
  checkpoint_id = coalesce(:checkpoint_id, checkpoint_id),
  updated_at = max(:now, updated_at),
  revision = revision + 1,
  cause = :cause,
  actor = :actor,
  note = :note
where id = :job_id
  and run_id = :run_id
returning session_id, updated_at as created_at, approval_expires_at as expires_at,
  updated_at + cast(round(1000000 * :remind_after_seconds) as integer) as remind_at,
  updated_at + cast(round(1000000 * :escalate_after_seconds) as integer) as escalate_at;

-- name: plan_reminder [postgres]
-- Sets the next reminder: the earliest among the notified approvers. Overdue approvers count as not notified.
-- Differs: how instants are added.
update cortex.approval_request
set remind_at = case when d.at < expires_at then d.at end
from (
  select min(n.notified_at + r.remind_after_seconds * interval '1 second') as at
  from cortex.approval_request r
  join cortex.approval_notice n on n.approval_request_id = r.id
  where r.id = :id
    and n.notified_at + r.remind_after_seconds * interval '1 second' > :now
) d
where id = :id
  and d.at is not null
  and remind_at is not null;

-- name: plan_reminder [sqlite]
-- Sets the next reminder: the earliest among the notified approvers. Overdue approvers count as not notified.
-- Differs: how instants are added.
update cortex.approval_request
set remind_at = case when d.at < expires_at then d.at end
from (
  select min(n.notified_at + cast(round(1000000 * r.remind_after_seconds) as integer)) as at
  from cortex.approval_request r
  join cortex.approval_notice n on n.approval_request_id = r.id
  where r.id = :id
    and n.notified_at + cast(round(1000000 * r.remind_after_seconds) as integer) > :now
) d
where id = :id
  and d.at is not null
  and remind_at is not null;

-- name: put_notifications
-- Stores the sent messages of a request.
update cortex.approval_request
set notification_channels = :channels
where id = :id;

-- name: put_token [postgres]
-- Stores the hash of a token before the token is sent, with the next number of its address.
-- Differs: the locks, so that closing, unlinking and disabling find every token.
-- No row: stored already, the request is closed, the address is not linked, or the account is disabled.
with asked as (
  select r.id
  from cortex.approval_request r
  cross join cortex.channel_mapping m
  join cortex.user_account u on u.id = m.user_account_id
  where r.id = :request_id
    and r.outcome is null
    and m.channel_type = cast(:channel_type as text)
    and m.channel_user_id = cast(:channel_user_id as text)
    and u.id = cast(:user_id as uuid)
    and u.disabled_at is null
  for share
)
insert into cortex.approval_token (token_hash, approval_request_id, user_account_id, channel_type, channel_user_id, serial)
select cast(:token_hash as text), id, cast(:user_id as uuid), cast(:channel_type as text), cast(:channel_user_id as text),
  1 + coalesce((
    select max(t.serial) from cortex.approval_token t
    where t.approval_request_id = id and t.user_account_id = cast(:user_id as uuid)
      and t.channel_type = cast(:channel_type as text) and t.channel_user_id = cast(:channel_user_id as text)), 0)
from asked
on conflict (token_hash) do nothing
returning token_hash;

-- name: put_token [sqlite]
-- Stores the hash of a token before the token is sent, with the next number of its address.
-- Differs: there is nothing to lock.
-- No row: stored already, the request is closed, the address is not linked, or the account is disabled.
insert into cortex.approval_token
  (token_hash, approval_request_id, user_account_id, channel_type, channel_user_id, serial, created_at)
select :token_hash, r.id, u.id, m.channel_type, m.channel_user_id,
  1 + coalesce((
    select max(t.serial) from cortex.approval_token t
    where t.approval_request_id = r.id and t.user_account_id = u.id
      and t.channel_type = m.channel_type and t.channel_user_id = m.channel_user_id), 0),
  :now
from cortex.approval_request r
cross join cortex.channel_mapping m
join cortex.user_account u on u.id = m.user_account_id
where r.id = :request_id
  and r.outcome is null
  and m.channel_type = :channel_type
  and m.channel_user_id = :channel_user_id
  and u.id = :user_id
  and u.disabled_at is null
on conflict (token_hash) do nothing
returning token_hash;

-- name: remind [postgres]
-- Counts a reminder of an open request that is due or requested, and schedules the next. No row: neither, or closed.
-- Differs: how instants are added.
update cortex.approval_request
set reminders = reminders + 1,
  remind_at = case when cortex.now() + remind_after_seconds * interval '1 second' < expires_at then cortex.now() + remind_after_seconds * interval '1 second' end
where id = :id
  and outcome is null
  and expires_at > :now
  and (cast(:asked_for as boolean) or remind_at <= :now)
returning id;

-- name: remind [sqlite]
-- Counts a reminder of an open request that is due or requested, and schedules the next. No row: neither, or closed.
-- Differs: how instants are added.
update cortex.approval_request
set reminders = reminders + 1,
  remind_at = case when (:now + cast(round(1000000 * remind_after_seconds) as integer)) < expires_at then (:now + cast(round(1000000 * remind_after_seconds) as integer)) end
where id = :id
  and outcome is null
  and expires_at > :now
  and (:asked_for or remind_at <= :now)
returning id;

-- name: replace_tokens
-- Invalidates the earlier tokens of an address, after the message with this token was delivered.
update cortex.approval_token
set replaced_at = :now
where approval_request_id = :request_id
  and user_account_id = :user_id
  and channel_type = :channel_type
  and channel_user_id = :channel_user_id
  and replaced_at is null
  and serial < (select t.serial from cortex.approval_token t where t.token_hash = :token_hash);

-- name: restore_token
-- Makes a replaced token valid again, with the next number of its address: its message was delivered later.
-- No row: the token was not replaced, or it was revoked.
update cortex.approval_token
set replaced_at = null,
  serial = (
    select 1 + max(t.serial) from cortex.approval_token t
    where t.approval_request_id = approval_token.approval_request_id and t.user_account_id = approval_token.user_account_id
      and t.channel_type = approval_token.channel_type and t.channel_user_id = approval_token.channel_user_id)
where token_hash = :token_hash
  and replaced_at is not null
returning token_hash;

-- name: supersede
-- Closes an open request that a newer request with another wording replaces. Its tokens become invalid.
update cortex.approval_request
set outcome = 'superseded',
  closed_at = :closed_at,
  remind_at = null,
  escalate_at = null
where id = :id
  and job_id = :job_id
  and outcome is null;

-- name: notify [postgres]
-- Inserts the jobs that notify approvers of a request.
-- Differs: a procedure is a function here.
select cortex.notify_approvers(:request_id, :purpose);

-- name: notify [sqlite]
-- Inserts the jobs that notify approvers of a request.
-- Differs: a procedure is a view with a trigger here.
insert into approval_to_tell values (:request_id, :purpose, :now);

-- name: notify_undecidable [postgres]
-- Inserts the jobs that notify webhooks of a request that too few people can decide.
-- Differs: a procedure is a function here.
select cortex.tell_webhooks_of_undecidable(:id, :problem);

-- name: notify_undecidable [sqlite]
-- Inserts the jobs that notify webhooks of a request that too few people can decide.
-- Differs: a procedure is a view with a trigger here.
insert into undecidable_to_tell values (:id, :problem, :now);

-- name: vote
-- Inserts a vote.
insert into cortex.approval_vote (approval_request_id, user_account_id, decision, reason, edited_details, door, created_at)
values (:request_id, :user_id, :decision, :reason, :edited_details, :door, :now);

-- name: vote_of
-- Returns the vote of one user on a request.
select decision, reason, edited_details
from cortex.approval_vote
where approval_request_id = :request_id
  and user_account_id = :user_id;

-- name: voter [postgres]
-- Returns a user and their relation to the job of a request.
-- Differs: the lock, so that an account cannot decide after it was disabled.
select u.id, u.name, u.display_name, u.email, u.created_at, u.disabled_at, u.owner_id,
  exists (
    select 1 from cortex.user_role o
    where o.user_account_id = u.id
      and o.role = 'approver'
      and (o.tenant_id is null or o.tenant_id = j.tenant_id)) as may_approve,
  exists (
    select 1 from cortex.job_submitter s where s.job_id = j.id and s.user_account_id = u.id) as is_submitter
from cortex.user_account u
cross join cortex.job j
where u.id = :user_id
  and j.id = :job_id
for share of u;

-- name: voter [sqlite]
-- Returns a user and their relation to the job of a request.
-- Differs: there is nothing to lock.
select u.id, u.name, u.display_name, u.email, u.created_at, u.disabled_at, u.owner_id,
  exists (
    select 1 from cortex.user_role o
    where o.user_account_id = u.id
      and o.role = 'approver'
      and (o.tenant_id is null or o.tenant_id = j.tenant_id)) as may_approve,
  exists (
    select 1 from cortex.job_submitter s where s.job_id = j.id and s.user_account_id = u.id) as is_submitter
from cortex.user_account u
cross join cortex.job j
where u.id = :user_id
  and j.id = :job_id;

-- name: votes
-- Returns the votes on a request, oldest first.
select v.user_account_id, coalesce(u.display_name, u.name) as name, v.decision, v.reason, v.door, v.created_at
from cortex.approval_vote v
join cortex.user_account u on u.id = v.user_account_id
where v.approval_request_id = :id
order by v.created_at, v.user_account_id;
