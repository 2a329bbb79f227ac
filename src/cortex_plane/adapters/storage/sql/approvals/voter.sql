-- How somebody stands towards a job that asks for approval.
select u.id, u.name, u.display_name, u.email, u.created_at, u.disabled_at,
  exists (
    select 1 from cortex.user_role o
    where o.user_account_id = u.id
      and o.role in ('approver', 'admin')
      and (o.tenant_id is null or o.tenant_id = j.tenant_id)) as may_approve,
  exists (
    select 1 from cortex.job_submitter s where s.job_id = j.id and s.user_account_id = u.id) as is_submitter
from cortex.user_account u
cross join cortex.job j
where u.id = :user_id
  and j.id = :job_id;
