-- Requests as they stand, newest first.
-- Differs: a list of ids is an array here.
select r.id, r.job_id, r.run_id, r.tenant_id, r.gate_key, r.token_hash, r.requested_by_agent_id, a.job_type as agent, r.designated,
  r.approvers, r.escalate_to, r.notification_channels, r.action_summary, r.action_details, r.digest, r.quorum, r.votes,
  r.no_self_approval, r.editable, r.on_expiry, r.default_value, r.on_denial, r.decision, r.decided_by,
  coalesce(u.display_name, u.name) as decided_by_name, r.reason, r.edited_details, r.used_at, r.outcome, r.closed_at,
  r.ttl_seconds, r.remind_at, r.reminders, r.escalate_at, r.escalated_at, r.expires_at, r.created_at,
  r.expires_at <= :now as expired
from cortex.approval_request r
join cortex.agent a on a.id = r.requested_by_agent_id
left join cortex.user_account u on u.id = r.decided_by
where r.id = any (cast(:ids as uuid[]))
order by r.id desc;
