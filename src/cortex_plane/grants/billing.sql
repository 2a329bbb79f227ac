-- name: ensure
-- Makes a billing account, unless its tenant has one of that name.
insert into cortex.billing_account (id, tenant_id, name, default_virtual_key_id, created_at)
values (:id, :tenant_id, :name, :virtual_key_id, :now)
on conflict (tenant_id, name) do nothing;

-- name: find
-- A tenant's billing account, by its name.
select b.id, b.tenant_id, t.name as tenant, b.name, b.default_virtual_key_id, b.created_at
from cortex.billing_account b
join cortex.tenant t on t.id = b.tenant_id
where b.tenant_id = :tenant_id and b.name = :name;

-- name: list
-- All billing accounts, or those of one tenant, by name.
select b.id, b.tenant_id, t.name as tenant, b.name, b.default_virtual_key_id, b.created_at
from cortex.billing_account b
join cortex.tenant t on t.id = b.tenant_id
where cast(:tenant_id as text) is null or cast(b.tenant_id as text) = cast(:tenant_id as text)
order by t.name, b.name;

-- name: totals
-- What the runs of each billing account have used, by unit: of all accounts, or of one tenant's.
select c.billing_account_id, c.unit, cast(sum(c.quantity) as bigint) as quantity, count(distinct c.request_id) as runs
from cortex.charge_receipt c
join cortex.billing_account b on b.id = c.billing_account_id
where cast(:tenant_id as text) is null or cast(b.tenant_id as text) = cast(:tenant_id as text)
group by c.billing_account_id, c.unit
order by c.billing_account_id, c.unit;
