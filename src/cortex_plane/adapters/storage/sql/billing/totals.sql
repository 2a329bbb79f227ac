-- What the runs of each billing account have used, by unit.
select billing_account_id, unit, cast(sum(quantity) as bigint) as quantity, count(distinct run_id) as runs
from cortex.charge_receipt
group by billing_account_id, unit
order by billing_account_id, unit;
