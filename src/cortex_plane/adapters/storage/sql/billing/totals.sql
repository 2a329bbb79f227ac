-- What the runs of each billing account have used, by unit: of all accounts, or of one tenant's.
select c.billing_account_id, c.unit, cast(sum(c.quantity) as bigint) as quantity, count(distinct c.request_id) as runs
from cortex.charge_receipt c
join cortex.billing_account b on b.id = c.billing_account_id
where cast(:tenant_id as text) is null or cast(b.tenant_id as text) = cast(:tenant_id as text)
group by c.billing_account_id, c.unit
order by c.billing_account_id, c.unit;
