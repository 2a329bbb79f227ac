-- name: account
-- What is left of an account: its id, and a name that says nothing.
update cortex.user_account
set name = :name, display_name = null, email = null, disabled_at = coalesce(disabled_at, :now)
where id = :id;

-- name: audit_entry [postgres]
-- Takes words out of an entry of the audit log; what is left proves that nothing else was changed.
-- Differs: what is kept is jsonb here.
update cortex.audit_log
set actor = :actor,
  reason = case when :drop_reason then null else reason end,
  source = case when :drop_source then null else source end,
  details = case when :drop_details then null else details end,
  salt = null,
  kept = cast(:kept as jsonb)
where seq = :seq;

-- name: audit_entry [sqlite]
-- Takes words out of an entry of the audit log; what is left proves that nothing else was changed.
-- Differs: what is kept is text here.
update cortex.audit_log
set actor = :actor,
  reason = case when :drop_reason then null else reason end,
  source = case when :drop_source then null else source end,
  details = case when :drop_details then null else details end,
  salt = null,
  kept = :kept
where seq = :seq;

-- name: audit_of_person
-- Entries by or about a person after one of them: by name, by id, or with the name in their words.
select seq, at, tenant_id, actor, action, object_type, object_id, reason, source, details, salt, kept
from cortex.audit_log
where seq > :after
  and (actor in (:as_user, :as_login, :as_name)
    or object_id = :id
    or cast(details as text) like :in_details escape '!'
    or reason like :in_words escape '!')
order by seq
limit :limit;

-- name: audit_of_tenant
-- Entries of a tenant after one of them.
select seq, at, tenant_id, actor, action, object_type, object_id, reason, source, details, salt, kept
from cortex.audit_log
where seq > :after
  and (tenant_id = :id or object_id = cast(:id as text))
  and (actor is not null or reason is not null or source is not null or details is not null)
order by seq
limit :limit;

-- name: ended_jobs_of_person
-- Ended jobs that somebody submitted, or that came out of a conversation of theirs.
select id
from cortex.job
where (created_by in (:as_user, :as_login, :as_name) or session_id in (select s.id from cortex.session s where s.user_account_id = :id))
  and status in ('COMPLETED', 'FAILED', 'CANCELLED')
  and id > :after
order by id
limit :limit;

-- name: jobs_of_tenant
-- Jobs of a tenant after one of them, and whether each has ended.
select id, status in ('COMPLETED', 'FAILED', 'CANCELLED') as has_ended
from cortex.job
where tenant_id = :id
  and id > :after
order by id
limit :limit;

-- name: leave_api_key
-- Of a person, nothing stays here.
delete from cortex.api_key
where user_account_id = :id;

-- name: leave_approval_token
-- Of a person, nothing stays here.
delete from cortex.approval_token
where user_account_id = :id;

-- name: leave_channel_mapping
-- Of a person, nothing stays here.
delete from cortex.channel_mapping
where user_account_id = :id;

-- name: leave_group_member
-- Of a person, nothing stays here.
delete from cortex.group_member
where user_account_id = :id;

-- name: leave_login_session
-- Of a person, nothing stays here.
delete from cortex.login_session
where user_account_id = :id;

-- name: leave_user_password
-- Of a person, nothing stays here.
delete from cortex.user_password
where user_account_id = :id;

-- name: leave_user_role
-- Of a person, nothing stays here.
delete from cortex.user_role
where user_account_id = :id;

-- name: rename_api_key_created_by
-- A person becomes a pseudonym.
update cortex.api_key
set created_by = :pseudonym
where created_by in (:as_user, :as_login, :as_name);

-- name: rename_control_paused_by
-- A person becomes a pseudonym, and their words go.
update cortex.control
set paused_by = :pseudonym, pause_reason = null
where paused_by in (:as_user, :as_login, :as_name);

-- name: rename_control_updated_by
-- A person becomes a pseudonym.
update cortex.control
set updated_by = :pseudonym
where updated_by in (:as_user, :as_login, :as_name);

-- name: rename_direct_reservation_reserved_by
-- A person becomes a pseudonym.
update cortex.direct_reservation
set reserved_by = :pseudonym
where reserved_by in (:as_user, :as_login, :as_name);

-- name: rename_execution_grant_created_by
-- A person becomes a pseudonym.
update cortex.execution_grant
set created_by = :pseudonym
where created_by in (:as_user, :as_login, :as_name);

-- name: rename_execution_grant_revoked_by
-- A person becomes a pseudonym, and their words go.
update cortex.execution_grant
set revoked_by = :pseudonym, revoke_reason = null
where revoked_by in (:as_user, :as_login, :as_name);

-- name: rename_execution_request_service_name
-- A person becomes a pseudonym.
update cortex.execution_request
set service_name = :pseudonym
where service_name in (:as_user, :as_login, :as_name);

-- name: rename_history
-- A person becomes a pseudonym, and their words go.
update cortex.job_history
set actor = :pseudonym, metadata = null
where actor in (:as_user, :as_login, :as_name);

-- name: rename_job_actor
-- A person who changed a job last becomes a pseudonym, and their words go.
update cortex.job
set actor = :pseudonym, note = null
where actor in (:as_user, :as_login, :as_name);

-- name: rename_job_created_by
-- A person becomes a pseudonym.
update cortex.job
set created_by = :pseudonym
where created_by in (:as_user, :as_login, :as_name);

-- name: rename_job_group_created_by
-- A person becomes a pseudonym.
update cortex.job_group
set created_by = :pseudonym
where created_by in (:as_user, :as_login, :as_name);

-- name: rename_job_submitters [postgres]
-- A person becomes a pseudonym.
-- Differs: a list is jsonb here.
update cortex.job j
set submitters = (
  select jsonb_agg(case when e.value in (:as_user, :as_login, :as_name) then cast(:pseudonym as text) else e.value end)
  from jsonb_array_elements_text(j.submitters) e)
where j.submitters ?| array[cast(:as_user as text), cast(:as_login as text), cast(:as_name as text)];

-- name: rename_job_submitters [sqlite]
-- A person becomes a pseudonym.
-- Differs: a list is JSON text here.
update cortex.job
set submitters = (
  select json_group_array(iif(e.value in (:as_user, :as_login, :as_name), :pseudonym, e.value)) from json_each(job.submitters) e)
where submitters is not null
  and exists (select 1 from json_each(job.submitters) e where e.value in (:as_user, :as_login, :as_name));

-- name: rename_job_template_changed_by
-- A person becomes a pseudonym.
update cortex.job_template
set changed_by = :pseudonym
where changed_by in (:as_user, :as_login, :as_name);

-- name: rename_job_template_created_by
-- A person becomes a pseudonym.
update cortex.job_template
set created_by = :pseudonym
where created_by in (:as_user, :as_login, :as_name);

-- name: rename_retention_rule_created_by
-- A person becomes a pseudonym.
update cortex.retention_rule
set created_by = :pseudonym
where created_by in (:as_user, :as_login, :as_name);

-- name: rename_schedule_changed_by
-- A person becomes a pseudonym.
update cortex.schedule
set changed_by = :pseudonym
where changed_by in (:as_user, :as_login, :as_name);

-- name: rename_schedule_created_by
-- A person becomes a pseudonym.
update cortex.schedule
set created_by = :pseudonym
where created_by in (:as_user, :as_login, :as_name);

-- name: rename_schedule_paused_by
-- A person becomes a pseudonym, and their words go.
update cortex.schedule
set paused_by = :pseudonym, pause_reason = null
where paused_by in (:as_user, :as_login, :as_name);

-- name: rename_schedule_removed_by
-- A person becomes a pseudonym.
update cortex.schedule
set removed_by = :pseudonym
where removed_by in (:as_user, :as_login, :as_name);

-- name: rename_schedule_run_requested_by
-- A person becomes a pseudonym.
update cortex.schedule_run
set requested_by = :pseudonym
where requested_by in (:as_user, :as_login, :as_name);

-- name: rename_webhook_endpoint_created_by
-- A person becomes a pseudonym.
update cortex.webhook_endpoint
set created_by = :pseudonym
where created_by in (:as_user, :as_login, :as_name);

-- name: requests_of
-- Answers that were kept for a caller.
delete from cortex.http_request
where caller in (:as_user, :as_login, :as_name);

-- name: tenant
-- What is left of a tenant: its id, and a name that says nothing.
update cortex.tenant
set name = :name
where id = :id;

-- name: tenant_api_key
-- Of a tenant, nothing stays here.
delete from cortex.api_key
where tenant_id = :id;

-- name: tenant_billing_account
-- Of a tenant, nothing stays here.
delete from cortex.billing_account
where tenant_id = :id;

-- name: tenant_charge_receipt
-- Of a tenant, nothing stays here.
delete from cortex.charge_receipt
where request_id in (select r.id from cortex.execution_request r where r.tenant_id = :id);

-- name: tenant_control
-- Of a tenant, nothing stays here.
delete from cortex.control
where scope = 'tenant' and name = cast(:id as text);

-- name: tenant_cost_total
-- Of a tenant, nothing stays here.
delete from cortex.cost_total
where tenant_id = :id;

-- name: tenant_execution_grant
-- Of a tenant, nothing stays here.
delete from cortex.execution_grant
where tenant_id = :id;

-- name: tenant_execution_request
-- Of a tenant, nothing stays here.
delete from cortex.execution_request
where tenant_id = :id;

-- name: tenant_fair_turn
-- Of a tenant, nothing stays here.
delete from cortex.fair_turn
where tenant_id = :id;

-- name: tenant_http_request
-- Of a tenant, nothing stays here.
delete from cortex.http_request
where tenant_id = :id;

-- name: tenant_job_group
-- Of a tenant, nothing stays here.
delete from cortex.job_group
where tenant_id = :id;

-- name: tenant_job_key
-- Of a tenant, nothing stays here.
delete from cortex.job_key
where tenant_id = :id;

-- name: tenant_job_template
-- Of a tenant, nothing stays here.
delete from cortex.job_template
where tenant_id = :id;

-- name: tenant_retention_rule
-- Of a tenant, nothing stays here.
delete from cortex.retention_rule
where tenant_id = :id;

-- name: tenant_schedule
-- Of a tenant, nothing stays here.
delete from cortex.schedule
where tenant_id = :id;

-- name: tenant_schedule_run
-- Of a tenant, nothing stays here.
delete from cortex.schedule_run
where schedule_id in (select s.id from cortex.schedule s where s.tenant_id = :id);

-- name: tenant_session
-- The conversations of a tenant.
delete from cortex.session
where tenant_id = :id;

-- name: tenant_user_group
-- Of a tenant, nothing stays here.
delete from cortex.user_group
where tenant_id = :id;

-- name: tenant_user_role
-- Of a tenant, nothing stays here.
delete from cortex.user_role
where tenant_id = :id;

-- name: tenant_webhook_endpoint
-- Of a tenant, nothing stays here.
delete from cortex.webhook_endpoint
where tenant_id = :id;
