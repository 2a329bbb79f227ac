-- Stores the request that a job has just begun to wait for.
insert into cortex.approval_request (
  id, job_id, run_id, tenant_id, gate_key, token_hash, requested_by_agent_id, approver_user_account_id, designated, approvers,
  escalate_to, action_summary, action_details, digest, quorum, no_self_approval, editable, on_expiry, default_value, on_denial,
  ttl_seconds, remind_after_seconds, remind_at, escalate_at, expires_at, created_at)
values (
  :id, :job_id, :run_id, :tenant_id, :gate_key, :token_hash, :agent_id, :approver_id, :designated, :approvers,
  :escalate_to, :action_summary, :action_details, :digest, :quorum, :no_self_approval, :editable, :on_expiry, :default_value,
  :on_denial, :ttl_seconds, :remind_after_seconds, :remind_at, :escalate_at, :expires_at, :created_at);
