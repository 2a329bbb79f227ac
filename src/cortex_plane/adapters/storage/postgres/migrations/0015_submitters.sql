-- Whose a job is: who must not decide about it where a gate asks for somebody else.
--
--   by name       as a program gave it, "user:NAME" of whoever signed in or used a key of theirs, "cli:NAME" of a login
--   by session    whose conversation it came out of
--   by grant      whose grant it was started under, and who asked for it

create view cortex.job_submitter as
select j.id as job_id, u.id as user_account_id
from cortex.job j
join cortex.user_account u on u.name in (
  j.created_by,
  case
    when j.created_by like 'user:%' then substr(j.created_by, 6)
    when j.created_by like 'cli:%' then substr(j.created_by, 5)
  end)
union all
select j.id, s.user_account_id
from cortex.job j
join cortex.session s on s.id = j.session_id
union all
select j.id, g.user_account_id
from cortex.job j
join cortex.execution_request r on r.id = j.request_id
join cortex.execution_grant g on g.id = r.grant_id
where g.user_account_id is not null
union all
select j.id, u.id
from cortex.job j
join cortex.execution_request r on r.id = j.request_id and r.service_name like 'user:%'
join cortex.user_account u on u.name = substr(r.service_name, 6);

-- A job for the agent `cortex.notify` for each person: to ask and to remind those who can still vote, to escalate to those who
-- were added, and to settle with those who hold a token.
create function cortex.notify_approvers(_request uuid, _purpose text) returns void language sql as $$
  insert into cortex.job (tenant_id, agent_id, job_type, queue, payload, max_retries, created_by, cause, actor)
  select r.tenant_id, a.id, a.job_type, 'cortex',
    jsonb_build_object('approval_request_id', r.id, 'user_account_id', u.id, 'purpose', _purpose),
    coalesce((a.skill_config #>> '{retry,max_retries}')::int, 3), a.job_type, 'submit', a.job_type
  from cortex.approval_request r
  join cortex.agent a on a.job_type = 'cortex.notify'
  join cortex.user_account u on u.id in (
    select t.user_account_id from cortex.approval_token t where t.approval_request_id = r.id and _purpose = 'settle'
    union
    select p.user_account_id from cortex.approval_approver p
    where p.approval_request_id = r.id and p.user_account_id is not null
      and (_purpose in ('ask', 'remind') or (_purpose = 'escalate' and p.escalated))
    union
    select m.user_account_id from cortex.approval_approver p
    join cortex.group_member m on m.group_id = p.user_group_id
    where p.approval_request_id = r.id and (_purpose in ('ask', 'remind') or (_purpose = 'escalate' and p.escalated))
    union
    select o.user_account_id from cortex.user_role o
    where not r.designated and _purpose in ('ask', 'remind')
      and o.role in ('approver', 'admin') and (o.tenant_id is null or o.tenant_id = r.tenant_id))
  where r.id = _request
    and (_purpose = 'settle' or (
      u.disabled_at is null
      and not exists (select 1 from cortex.approval_vote v where v.approval_request_id = r.id and v.user_account_id = u.id)
      and not (r.no_self_approval
        and exists (select 1 from cortex.job_submitter s where s.job_id = r.job_id and s.user_account_id = u.id))))
  order by u.id;
$$;

comment on view cortex.job_submitter is 'Who stands behind a job: who submitted it, whose session it came out of, or who started it under a grant.';
