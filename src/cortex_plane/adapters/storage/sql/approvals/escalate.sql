-- Marks an open request as escalated, if that is due. No row: it is not.
update cortex.approval_request
set escalated_at = :now,
  escalate_at = null
where id = :id
  and outcome is null
  and expires_at > :now
  and escalate_at <= :now
returning id, tenant_id, job_id, escalate_to;
