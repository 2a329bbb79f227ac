-- Whose a job is: who must not decide about it where a gate asks for somebody else.
--
--   by name       as a program gave it, "user:NAME" of whoever signed in or used a key of theirs, "cli:NAME" of a login
--   by session    whose conversation it came out of
--   by grant      whose grant it was started under, and who asked for it

create view job_submitter as
select j.id as job_id, u.id as user_account_id
from job j
join user_account u on u.name in (
  j.created_by,
  case
    when j.created_by like 'user:%' then substr(j.created_by, 6)
    when j.created_by like 'cli:%' then substr(j.created_by, 5)
  end)
union all
select j.id, s.user_account_id
from job j
join session s on s.id = j.session_id
union all
select j.id, g.user_account_id
from job j
join execution_request r on r.id = j.request_id
join execution_grant g on g.id = r.grant_id
where g.user_account_id is not null
union all
select j.id, u.id
from job j
join execution_request r on r.id = j.request_id and r.service_name like 'user:%'
join user_account u on u.name = substr(r.service_name, 6);

-- A procedure: `insert into approval_to_tell` makes a job for the agent `cortex.notify` for each person: to ask and to remind
-- those who can still vote, to escalate to those who were added, and to settle with those who hold a token.
create view approval_to_tell as select null as approval_request_id, null as purpose, null as at;
create trigger tell_approvers instead of insert on approval_to_tell
begin
  insert into job
    (id, tenant_id, agent_id, job_type, queue, position, payload, max_retries, worker_job_id, created_by, cause, actor,
     created_at, queued_at, updated_at)
  select
    printf('%08x-%04x-7%s-8%s-%s', (new.at / 1000) >> 16, (new.at / 1000) & 65535,
      substr(lower(hex(randomblob(2))), 2), substr(lower(hex(randomblob(2))), 2), lower(hex(randomblob(6)))),
    r.tenant_id, a.id, a.job_type, 'cortex',
    (select value from counter where name = 'position') + 100 * row_number() over (order by u.id),
    json_object('approval_request_id', r.id, 'user_account_id', u.id, 'purpose', new.purpose),
    coalesce(json_extract(a.skill_config, '$.retry.max_retries'), 3),
    (select value from counter where name = 'queue_entry') + row_number() over (order by u.id),
    a.job_type, 'submit', a.job_type, new.at, new.at, new.at
  from approval_request r
  join agent a on a.job_type = 'cortex.notify'
  join user_account u on u.id in (
    select t.user_account_id from approval_token t where t.approval_request_id = r.id and new.purpose = 'settle'
    union
    select p.user_account_id from approval_approver p
    where p.approval_request_id = r.id and p.user_account_id is not null
      and (new.purpose in ('ask', 'remind') or (new.purpose = 'escalate' and p.escalated))
    union
    select m.user_account_id from approval_approver p
    join group_member m on m.group_id = p.user_group_id
    where p.approval_request_id = r.id and (new.purpose in ('ask', 'remind') or (new.purpose = 'escalate' and p.escalated))
    union
    select o.user_account_id from user_role o
    where not r.designated and new.purpose in ('ask', 'remind')
      and o.role in ('approver', 'admin') and (o.tenant_id is null or o.tenant_id = r.tenant_id))
  where r.id = new.approval_request_id
    and (new.purpose = 'settle' or (
      u.disabled_at is null
      and not exists (select 1 from approval_vote v where v.approval_request_id = r.id and v.user_account_id = u.id)
      and not (r.no_self_approval
        and exists (select 1 from job_submitter s where s.job_id = r.job_id and s.user_account_id = u.id))));
end;
