-- Whose a job is: who must not decide about it where a gate asks for somebody else.
--
--   by name       as a program gave it, "user:NAME" of whoever signed in or used a key of theirs, "cli:NAME" of a login
--   by key        "key:PREFIX": whose key it is, and who made it
--   by session    whose conversation it came out of
--   by grant      whose grant it was started under, "grant:ID", also when it is a fork of that work, and who asked for it
--   submitters    the same of others: its parent's, the editor and trigger of its schedule, whoever had it run again
--
-- A service account stands for the admin who owns it. The casts keep one affinity in all parts, without which SQLite would read every job.

create view job_submitter as
select j.id as job_id, cast(coalesce(u.owner_id, u.id) as text) as user_account_id
from job j
join user_account u on u.name in (
  j.created_by,
  case
    when j.created_by like 'user:%' then substr(j.created_by, 6)
    when j.created_by like 'cli:%' then substr(j.created_by, 5)
  end)
union all
select j.id, cast(coalesce(u.owner_id, u.id) as text)
from job j
join api_key k on j.created_by like 'key:%' and k.prefix = substr(j.created_by, 5)
join user_account u on u.id = k.user_account_id
union all
select j.id, cast(coalesce(u.owner_id, u.id) as text)
from job j
join api_key k on j.created_by like 'key:%' and k.prefix = substr(j.created_by, 5)
join user_account u on u.name in (
  k.created_by,
  case
    when k.created_by like 'user:%' then substr(k.created_by, 6)
    when k.created_by like 'cli:%' then substr(k.created_by, 5)
  end)
union all
select j.id as job_id, cast(coalesce(u.owner_id, u.id) as text) as user_account_id
from job j
cross join json_each(j.submitters) e
join user_account u on u.name in (
  e.value,
  case
    when e.value like 'user:%' then substr(e.value, 6)
    when e.value like 'cli:%' then substr(e.value, 5)
  end)
union all
select j.id, cast(coalesce(u.owner_id, u.id) as text)
from job j
cross join json_each(j.submitters) e
join api_key k on e.value like 'key:%' and k.prefix = substr(e.value, 5)
join user_account u on u.id = k.user_account_id
union all
select j.id, cast(coalesce(u.owner_id, u.id) as text)
from job j
cross join json_each(j.submitters) e
join api_key k on e.value like 'key:%' and k.prefix = substr(e.value, 5)
join user_account u on u.name in (
  k.created_by,
  case
    when k.created_by like 'user:%' then substr(k.created_by, 6)
    when k.created_by like 'cli:%' then substr(k.created_by, 5)
  end)
union all
select j.id, s.user_account_id
from job j
join session s on s.id = j.session_id
union all
select j.id, s.user_account_id
from job j
cross join json_each(j.submitters) e
join session s on e.value like 'session:%' and s.id = substr(e.value, 9)
union all
select j.id, cast(coalesce(u.owner_id, u.id) as text)
from job j
join execution_request r on r.id = j.request_id
join execution_grant g on g.id = r.grant_id
join user_account u on u.id = g.user_account_id
union all
select j.id, cast(coalesce(u.owner_id, u.id) as text)
from job j
join execution_grant g on j.created_by like 'grant:%' and g.id = substr(j.created_by, 7)
join user_account u on u.id = g.user_account_id
union all
select j.id, cast(coalesce(u.owner_id, u.id) as text)
from job j
cross join json_each(j.submitters) e
join execution_grant g on e.value like 'grant:%' and g.id = substr(e.value, 7)
join user_account u on u.id = g.user_account_id
union all
select j.id, cast(coalesce(u.owner_id, u.id) as text)
from job j
join execution_request r on r.id = j.request_id and r.service_name like 'user:%'
join user_account u on u.name = substr(r.service_name, 6);

-- A procedure: `insert into approval_to_tell` makes a job for the agent `cortex.notify` for each person: to ask those who can still vote, to
-- remind those of them who were last told long enough ago, to escalate to those who were added, and to settle with those who hold a token.
create view approval_to_tell as select null as approval_request_id, null as purpose, null as at;
create trigger tell_approvers instead of insert on approval_to_tell
begin
  insert into approval_notice (approval_request_id, user_account_id, notified_at, untold)
  select r.id, u.id, new.at, 1
  from approval_request r
  join user_account u on u.id in (
    select p.user_account_id from approval_approver p
    where p.approval_request_id = r.id and p.user_account_id is not null and (new.purpose <> 'escalate' or p.escalated)
    union
    select m.user_account_id from approval_approver p
    join group_member m on m.group_id = p.user_group_id
    where p.approval_request_id = r.id and (new.purpose <> 'escalate' or p.escalated)
    union
    select o.user_account_id from user_role o
    where not r.designated and new.purpose in ('ask', 'remind')
      and o.role = 'approver' and (o.tenant_id is null or o.tenant_id = r.tenant_id))
  where r.id = new.approval_request_id
    and new.purpose <> 'settle'
    and u.disabled_at is null
    and u.owner_id is null
    and not exists (select 1 from approval_vote v where v.approval_request_id = r.id and v.user_account_id = u.id)
    and not (r.no_self_approval
      and exists (select 1 from job_submitter s where s.job_id = r.job_id and s.user_account_id = u.id))
    and not (new.purpose = 'remind' and exists (
      select 1 from approval_notice b
      where b.approval_request_id = r.id and b.user_account_id = u.id
        and b.notified_at + cast(round(1000000 * r.remind_after_seconds) as integer) > new.at))
  on conflict (approval_request_id, user_account_id) do update set notified_at = excluded.notified_at, untold = 1;
  insert into job
    (id, tenant_id, agent_id, job_type, queue, position, payload, max_retries, worker_job_id, created_by, cause, actor,
     created_at, queued_at, updated_at)
  select
    printf('%08x-%04x-7%s-8%s-%s', (new.at / 1000) >> 16, (new.at / 1000) & 65535,
      substr(lower(hex(randomblob(2))), 2), substr(lower(hex(randomblob(2))), 2), lower(hex(randomblob(6)))),
    r.tenant_id, a.id, a.job_type, 'cortex',
    (select value from counter where name = 'position') + 100 * row_number() over (order by p.user_account_id),
    json_object('approval_request_id', r.id, 'user_account_id', p.user_account_id, 'purpose', new.purpose),
    coalesce(json_extract(a.skill_config, '$.retry.max_retries'), 3),
    (select value from counter where name = 'queue_entry') + row_number() over (order by p.user_account_id),
    a.job_type, 'submit', a.job_type, new.at, new.at, new.at
  from approval_request r
  join agent a on a.job_type = 'cortex.notify'
  join (
    select n.user_account_id from approval_notice n where n.approval_request_id = new.approval_request_id and n.untold
    union
    select t.user_account_id from approval_token t where t.approval_request_id = new.approval_request_id and new.purpose = 'settle') p
  where r.id = new.approval_request_id;
  update approval_notice set untold = 0 where approval_request_id = new.approval_request_id and untold;
end;

-- A procedure: `insert into undecidable_to_tell` makes a delivery of `approval.undecidable` for each endpoint that wants it.
create view undecidable_to_tell as select null as approval_request_id, null as problem, null as at;
create trigger tell_undecidable instead of insert on undecidable_to_tell
begin
  insert into job
    (id, tenant_id, agent_id, job_type, queue, position, payload, max_retries, worker_job_id, created_by, cause, actor,
     created_at, queued_at, updated_at)
  select
    printf('%08x-%04x-7%s-8%s-%s', (new.at / 1000) >> 16, (new.at / 1000) & 65535,
      substr(lower(hex(randomblob(2))), 2), substr(lower(hex(randomblob(2))), 2), lower(hex(randomblob(6)))),
    r.tenant_id, a.id, a.job_type, 'cortex',
    (select value from counter where name = 'position') + 100 * row_number() over (order by e.id),
    json_object(
      'endpoint_id', e.id,
      'event_id', 'evt_' || replace(r.id, '-', '') || '_undecidable',
      'event', json_object(
        'type', 'approval.undecidable',
        'timestamp', strftime('%Y-%m-%dT%H:%M:%S', r.created_at / 1000000, 'unixepoch')
          || iif(r.created_at % 1000000, printf('.%06d', r.created_at % 1000000), '') || '+00:00',
        'data', json_object(
          'approval_request_id', r.id,
          'job_id', r.job_id,
          'agent', j.job_type,
          'summary', r.action_summary,
          'problem', new.problem))),
    coalesce(json_extract(a.skill_config, '$.retry.max_retries'), 3),
    (select value from counter where name = 'queue_entry') + row_number() over (order by e.id),
    a.job_type, 'submit', a.job_type, new.at, new.at, new.at
  from approval_request r
  join job j on j.id = r.job_id
  join webhook_endpoint e on e.tenant_id = r.tenant_id and e.enabled = 1
  join agent a on a.job_type = 'cortex.webhook'
  where r.id = new.approval_request_id
    and exists (
      select 1 from json_each(e.events) f where f.value in ('*', 'approval.*', 'approval.undecidable'));
end;
