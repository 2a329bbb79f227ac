-- The person of this name, with one row for each of their roles, or one without.
select u.id, u.name, u.display_name, u.email, u.created_at, u.disabled_at, r.role, r.tenant_id, t.name as tenant
from cortex.user_account u
left join cortex.user_role r on r.user_account_id = u.id
left join cortex.tenant t on t.id = r.tenant_id
where u.name = :name
order by r.role, t.name;
