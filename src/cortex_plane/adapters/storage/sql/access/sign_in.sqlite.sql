-- Who is signed in with this cookie, with one row for each of their roles, and whether its last use was noted a minute ago.
-- Differs: instants are numbers.
select u.id, u.name, r.role, r.tenant_id, t.name as tenant, s.last_used_at < :now - 60000000 as is_stale
from cortex.login_session s
join cortex.user_account u on u.id = s.user_account_id
left join cortex.user_role r on r.user_account_id = u.id
left join cortex.tenant t on t.id = r.tenant_id
where s.token_hash = :hash
  and s.expires_at > :now
  and u.disabled_at is null
order by r.role, t.name;
