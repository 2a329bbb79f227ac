-- What a run has used, its retries included.
select c.run_id, c.attempt, c.unit, c.quantity, c.billing_account_id, c.grant_id, c.virtual_key_id, c.created_at, c.updated_at
from cortex.execution_request r
join cortex.charge_receipt c on c.request_id = r.id
where r.run_id = :run_id
order by c.created_at, c.run_id, c.attempt, c.unit;
