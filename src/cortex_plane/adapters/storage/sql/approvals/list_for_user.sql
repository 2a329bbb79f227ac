-- The newest open requests before :before that somebody may decide and has not voted on.
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
        and w.role in ('approver', 'admin')
        and (w.tenant_id is null or w.tenant_id = o.tenant_id))
) asked
join cortex.approval_request r on r.id = asked.id
join cortex.user_account u on u.id = :user_id
where r.outcome is null
  and r.expires_at > :now
  and u.disabled_at is null
  and (cast(:tenant_id as text) is null or cast(r.tenant_id as text) = cast(:tenant_id as text))
  and not exists (
    select 1 from cortex.approval_vote v where v.approval_request_id = r.id and v.user_account_id = u.id)
  and not (r.no_self_approval
    and exists (select 1 from cortex.job_submitter s where s.job_id = r.job_id and s.user_account_id = u.id))
order by r.id desc
limit :limit;
