-- Whose a job is: who must not decide about it where a gate asks for somebody else.
--
--   by name       as a program gave it, "user:NAME" of whoever signed in or used a key of theirs, "cli:NAME" of a login
--   by key        "key:PREFIX": whose key it is, and who made it
--   by session    whose conversation it came out of
--   by grant      whose grant it was started under, "grant:ID", also when it is a fork of that work, and who asked for it
--   submitters    the same of others: its parent's, the editor and trigger of its schedule, whoever had it run again
--
-- A service account stands for the admin who owns it.

-- The id of `KIND:ID`; null for any other text. An index on the id is of use: an id that is made text would be looked for in the whole table.
create function cortex.id_in_signature(_signature text, _kind text) returns uuid language sql immutable as $$
  select case
    when _signature ~ ('^' || _kind || ':[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$') then right(_signature, 36)::uuid
  end;
$$;

create view cortex.job_submitter as
select j.id as job_id, coalesce(u.owner_id, u.id) as user_account_id
from cortex.job j
join cortex.user_account u on u.name in (
  j.created_by,
  case
    when j.created_by like 'user:%' then substr(j.created_by, 6)
    when j.created_by like 'cli:%' then substr(j.created_by, 5)
  end)
union all
select j.id, coalesce(u.owner_id, u.id)
from cortex.job j
join cortex.api_key k on j.created_by like 'key:%' and k.prefix = substr(j.created_by, 5)
join cortex.user_account u on u.id = k.user_account_id
union all
select j.id, coalesce(u.owner_id, u.id)
from cortex.job j
join cortex.api_key k on j.created_by like 'key:%' and k.prefix = substr(j.created_by, 5)
join cortex.user_account u on u.name in (
  k.created_by,
  case
    when k.created_by like 'user:%' then substr(k.created_by, 6)
    when k.created_by like 'cli:%' then substr(k.created_by, 5)
  end)
union all
select j.id as job_id, coalesce(u.owner_id, u.id) as user_account_id
from cortex.job j
cross join lateral jsonb_array_elements_text(j.submitters) e
join cortex.user_account u on u.name in (
  e.value,
  case
    when e.value like 'user:%' then substr(e.value, 6)
    when e.value like 'cli:%' then substr(e.value, 5)
  end)
union all
select j.id, coalesce(u.owner_id, u.id)
from cortex.job j
cross join lateral jsonb_array_elements_text(j.submitters) e
join cortex.api_key k on e.value like 'key:%' and k.prefix = substr(e.value, 5)
join cortex.user_account u on u.id = k.user_account_id
union all
select j.id, coalesce(u.owner_id, u.id)
from cortex.job j
cross join lateral jsonb_array_elements_text(j.submitters) e
join cortex.api_key k on e.value like 'key:%' and k.prefix = substr(e.value, 5)
join cortex.user_account u on u.name in (
  k.created_by,
  case
    when k.created_by like 'user:%' then substr(k.created_by, 6)
    when k.created_by like 'cli:%' then substr(k.created_by, 5)
  end)
union all
select j.id, s.user_account_id
from cortex.job j
join cortex.session s on s.id = j.session_id
union all
select j.id, s.user_account_id
from cortex.job j
cross join lateral jsonb_array_elements_text(j.submitters) e
join cortex.session s on s.id = cortex.id_in_signature(e.value, 'session')
union all
select j.id, coalesce(u.owner_id, u.id)
from cortex.job j
join cortex.execution_request r on r.id = j.request_id
join cortex.execution_grant g on g.id = r.grant_id
join cortex.user_account u on u.id = g.user_account_id
union all
select j.id, coalesce(u.owner_id, u.id)
from cortex.job j
join cortex.execution_grant g on g.id = cortex.id_in_signature(j.created_by, 'grant')
join cortex.user_account u on u.id = g.user_account_id
union all
select j.id, coalesce(u.owner_id, u.id)
from cortex.job j
cross join lateral jsonb_array_elements_text(j.submitters) e
join cortex.execution_grant g on g.id = cortex.id_in_signature(e.value, 'grant')
join cortex.user_account u on u.id = g.user_account_id
union all
select j.id, coalesce(u.owner_id, u.id)
from cortex.job j
join cortex.execution_request r on r.id = j.request_id and r.service_name like 'user:%'
join cortex.user_account u on u.name = substr(r.service_name, 6);

-- A job for the agent `cortex.notify` for each person: to ask those who can still vote, to remind those of them who were last told long enough
-- ago, to escalate to those who were added, and to settle with those who hold a token.
create function cortex.notify_approvers(_request uuid, _purpose text) returns void language sql as $$
  with told as (
    insert into cortex.approval_notice as n (approval_request_id, user_account_id, notified_at)
    select r.id, u.id, cortex.now()
    from cortex.approval_request r
    join cortex.user_account u on u.id in (
      select p.user_account_id from cortex.approval_approver p
      where p.approval_request_id = r.id and p.user_account_id is not null and (_purpose <> 'escalate' or p.escalated)
      union
      select m.user_account_id from cortex.approval_approver p
      join cortex.group_member m on m.group_id = p.user_group_id
      where p.approval_request_id = r.id and (_purpose <> 'escalate' or p.escalated)
      union
      select o.user_account_id from cortex.user_role o
      where not r.designated and _purpose in ('ask', 'remind')
        and o.role = 'approver' and (o.tenant_id is null or o.tenant_id = r.tenant_id))
    where r.id = _request
      and _purpose <> 'settle'
      and u.disabled_at is null
      and u.owner_id is null
      and not exists (select 1 from cortex.approval_vote v where v.approval_request_id = r.id and v.user_account_id = u.id)
      and not (r.no_self_approval
        and exists (select 1 from cortex.job_submitter s where s.job_id = r.job_id and s.user_account_id = u.id))
      and not (_purpose = 'remind' and exists (
        select 1 from cortex.approval_notice b
        where b.approval_request_id = r.id and b.user_account_id = u.id
          and b.notified_at + r.remind_after_seconds * interval '1 second' > cortex.now()))
    on conflict (approval_request_id, user_account_id) do update set notified_at = excluded.notified_at
    returning user_account_id
  ), people as (
    select user_account_id from told
    union
    select t.user_account_id from cortex.approval_token t where t.approval_request_id = _request and _purpose = 'settle'
  )
  insert into cortex.job (tenant_id, agent_id, job_type, queue, payload, max_retries, created_by, cause, actor)
  select r.tenant_id, a.id, a.job_type, 'cortex',
    jsonb_build_object('approval_request_id', r.id, 'user_account_id', p.user_account_id, 'purpose', _purpose),
    coalesce((a.skill_config #>> '{retry,max_retries}')::int, 3), a.job_type, 'submit', a.job_type
  from cortex.approval_request r
  join cortex.agent a on a.job_type = 'cortex.notify'
  join people p on true
  where r.id = _request
  order by p.user_account_id;
$$;

-- A delivery of `approval.undecidable` for each endpoint that wants it.
create function cortex.tell_webhooks_of_undecidable(_request uuid, _problem text) returns void language sql as $$
  insert into cortex.job (tenant_id, agent_id, job_type, queue, payload, max_retries, created_by, cause, actor)
  select r.tenant_id, a.id, a.job_type, 'cortex',
    jsonb_build_object(
      'endpoint_id', e.id,
      'event_id', 'evt_' || replace(r.id::text, '-', '') || '_undecidable',
      'event', jsonb_build_object(
        'type', 'approval.undecidable',
        'timestamp', cortex.iso(r.created_at),
        'data', jsonb_build_object(
          'approval_request_id', r.id,
          'job_id', r.job_id,
          'agent', j.job_type,
          'summary', r.action_summary,
          'problem', _problem))),
    coalesce((a.skill_config #>> '{retry,max_retries}')::int, 3), a.job_type, 'submit', a.job_type
  from cortex.approval_request r
  join cortex.job j on j.id = r.job_id
  join cortex.webhook_endpoint e on e.tenant_id = r.tenant_id and e.enabled
  join cortex.agent a on a.job_type = 'cortex.webhook'
  where r.id = _request
    and e.events ?| array['*', 'approval.*', 'approval.undecidable']
  order by e.id;
$$;

comment on view cortex.job_submitter is 'Who stands behind a job: who submitted it, whose session it came out of, or who started it under a grant.';
