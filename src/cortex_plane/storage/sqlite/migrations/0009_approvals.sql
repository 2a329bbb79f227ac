-- Approvals: what people were asked, how they voted, and how a job that waited goes on.
--
--   RUNNING ──▶ WAITING_FOR_APPROVAL     with a request; job.approval_token names it
--   the job leaves that state ──▶ its request closes, as the note of that change says; whoever was told is told how it ended
--   ... as RUNNING ──▶ an open run that no worker owns, and a queue entry: the claim that takes the entry takes the run over
--
-- So a request cannot be closed while its job waits, and a job cannot stop waiting and leave its request open.

create table approval_request (
  id text primary key,
  job_id text not null references job (id) on delete cascade,
  run_id text not null,
  tenant_id text not null,
  gate_key text not null check (gate_key <> ''),
  token_hash text not null check (length(token_hash) = 64),
  requested_by_agent_id text not null references agent (id) on delete restrict,
  approver_user_account_id text references user_account (id) on delete set null,
  designated integer not null check (designated in (0, 1)),
  approvers text not null check (json_valid(approvers)),
  escalate_to text not null check (json_valid(escalate_to)),
  notification_channels text not null default '[]' check (json_type(notification_channels) = 'array'),
  action_summary text not null,
  action_details text not null default '{}' check (json_valid(action_details)),
  digest text not null check (length(digest) = 64),
  quorum integer not null default 1 check (quorum > 0),
  votes integer not null default 0 check (votes >= 0),
  no_self_approval integer not null default 0 check (no_self_approval in (0, 1)),
  editable text not null default 'false' check (json_valid(editable)),
  on_expiry text not null default 'fail' check (on_expiry in ('fail', 'deny', 'approve', 'default')),
  default_value text not null default 'null' check (json_valid(default_value)),
  on_denial text not null default 'fail' check (on_denial in ('fail', 'raise')),
  supersedes text,
  decision text check (decision in ('approved', 'denied', 'expired')),
  decided_by text references user_account (id) on delete set null,
  reason text,
  edited_details text check (edited_details is null or json_valid(edited_details)),
  used_at integer,
  outcome text check (outcome in ('approved', 'denied', 'failed', 'defaulted', 'cancelled', 'superseded')),
  closed_at integer,
  ttl_seconds real not null check (ttl_seconds > 0),
  remind_after_seconds real check (remind_after_seconds > 0),
  remind_at integer,
  reminders integer not null default 0 check (reminders >= 0),
  escalate_at integer,
  escalated_at integer,
  expires_at integer not null,
  created_at integer not null,

  constraint chk_action_summary_not_empty check (length(trim(action_summary)) > 0),
  constraint uq_approval_token_hash unique (token_hash),
  constraint chk_decision_used_at check (
    (decision is not null and decision in ('approved', 'denied') and used_at is not null)
    or decision is 'expired'
    or (decision is null and used_at is null)),
  constraint closed_at_exactly_with_an_outcome check ((outcome is null) = (closed_at is null)),
  constraint a_decision_has_an_outcome check (decision is null or (outcome is not null and outcome not in ('cancelled', 'superseded'))),
  constraint only_people_edit check (edited_details is null or decision is 'approved')
) strict;
create index idx_approval_request_job_id on approval_request (job_id, created_at desc);
create index idx_approval_request_expired on approval_request (expires_at) where outcome is null;
create index idx_approval_request_approver on approval_request (approver_user_account_id, created_at desc)
  where outcome is null;
create index idx_approval_request_tenant on approval_request (tenant_id, id desc);
create index idx_approval_request_open on approval_request (id desc) where outcome is null;
create index idx_approval_request_open_of_job on approval_request (job_id) where outcome is null;
create index idx_approval_request_open_to_all on approval_request (tenant_id, id desc)
  where outcome is null and not designated;
create index idx_approval_request_remind on approval_request (remind_at) where outcome is null and remind_at is not null;
create index idx_approval_request_escalate on approval_request (escalate_at)
  where outcome is null and escalate_at is not null;

create table approval_vote (
  approval_request_id text not null references approval_request (id) on delete cascade,
  user_account_id text not null references user_account (id),
  decision text not null check (decision in ('approved', 'denied')),
  reason text,
  edited_details text check (edited_details is null or json_valid(edited_details)),
  door text not null check (door <> ''),
  created_at integer not null,
  primary key (approval_request_id, user_account_id)
) strict, without rowid;
create index approval_vote_of_user on approval_vote (user_account_id);

create table approval_token (
  token_hash text primary key check (length(token_hash) = 64),
  approval_request_id text not null references approval_request (id) on delete cascade,
  user_account_id text not null references user_account (id) on delete cascade,
  channel_type text not null,
  channel_user_id text not null,
  serial integer not null,
  created_at integer not null,
  replaced_at integer
) strict;
create index approval_token_of_user on approval_token (user_account_id);
create index approval_token_of_address on approval_token (approval_request_id, user_account_id, channel_type, channel_user_id);

-- The inbox: whom the open requests are put to by name. Rows go when their request closes.
create table approval_approver (
  approval_request_id text not null references approval_request (id) on delete cascade,
  user_account_id text references user_account (id) on delete cascade,
  user_group_id text references user_group (id) on delete cascade,
  escalated integer not null default 0 check (escalated in (0, 1)),
  constraint a_user_or_a_group check ((user_account_id is null) <> (user_group_id is null))
) strict;
create index approval_approver_of_request on approval_approver (approval_request_id);
create index approval_approver_of_user on approval_approver (user_account_id, approval_request_id desc)
  where user_account_id is not null;
create index approval_approver_of_group on approval_approver (user_group_id, approval_request_id desc)
  where user_group_id is not null;

-- When each person was last asked about an open request, or reminded of it, however many ways there are in which it was put to them. Rows go
-- when the request closes.
create table approval_notice (
  approval_request_id text not null references approval_request (id) on delete cascade,
  user_account_id text not null references user_account (id) on delete cascade,
  notified_at integer not null,
  untold integer not null default 0 check (untold in (0, 1)),
  primary key (approval_request_id, user_account_id)
) strict, without rowid;
create index approval_notice_of_user on approval_notice (user_account_id);

-- ---------------------------------------------------------------------------
-- What the database refuses
-- ---------------------------------------------------------------------------

create trigger approval_no_loose_insert before insert on approval_request
when new.outcome is not null or not exists (select 1 from job where id = new.job_id and approval_token = new.token_hash)
begin
  select raise(abort, 'An approval opens only with its job: set job.status to WAITING_FOR_APPROVAL and job.approval_token to its hash.');
end;
create trigger approval_no_replace before insert on approval_request
when exists (select 1 from approval_request where id = new.id or token_hash = new.token_hash)
begin
  select raise(abort, 'There is such an approval already; an approval is never replaced.');
end;

create trigger approval_as_shown before update on approval_request
when (new.id, new.job_id, new.run_id, new.tenant_id, new.gate_key, new.token_hash, new.requested_by_agent_id, new.designated,
    new.approvers, new.escalate_to, new.action_summary, new.action_details, new.digest, new.quorum, new.no_self_approval,
    new.editable, new.on_expiry, new.default_value, new.on_denial, new.supersedes, new.ttl_seconds, new.remind_after_seconds,
    new.expires_at, new.created_at)
  is not
  (old.id, old.job_id, old.run_id, old.tenant_id, old.gate_key, old.token_hash, old.requested_by_agent_id, old.designated,
    old.approvers, old.escalate_to, old.action_summary, old.action_details, old.digest, old.quorum, old.no_self_approval,
    old.editable, old.on_expiry, old.default_value, old.on_denial, old.supersedes, old.ttl_seconds, old.remind_after_seconds,
    old.expires_at, old.created_at)
begin
  select raise(abort, 'What an approval asks never changes.');
end;

create trigger approval_closed_for_good before update on approval_request
when old.outcome is not null and
  (new.decision, new.decided_by, new.reason, new.edited_details, new.used_at, new.outcome, new.closed_at, new.votes,
    new.remind_at, new.reminders, new.escalate_at, new.escalated_at)
  is not
  (old.decision, old.decided_by, old.reason, old.edited_details, old.used_at, old.outcome, old.closed_at, old.votes,
    old.remind_at, old.reminders, old.escalate_at, old.escalated_at)
begin
  select raise(abort, 'An approval that is closed stays as it is.');
end;

create trigger approval_closes_with_job before update of outcome on approval_request
when old.outcome is null and new.outcome is not null
  and exists (select 1 from job where id = old.job_id and approval_token = old.token_hash)
begin
  select raise(abort, 'An approval closes only with its job: decide it, or cancel the job.');
end;

create trigger approval_no_delete before delete on approval_request
when exists (select 1 from job where id = old.job_id)
begin
  select raise(abort, 'Rows of approval_request go only with their whole job.');
end;

create trigger vote_in_time before insert on approval_vote
when not exists (select 1 from approval_request where id = new.approval_request_id and outcome is null)
begin
  select raise(abort, 'There is no such open approval.');
end;
create trigger vote_no_replace before insert on approval_vote
when exists (
  select 1 from approval_vote where approval_request_id = new.approval_request_id and user_account_id = new.user_account_id)
begin
  select raise(abort, 'Rows of approval_vote are never changed or deleted.');
end;
create trigger vote_no_update before update on approval_vote
begin
  select raise(abort, 'Rows of approval_vote are never changed or deleted.');
end;
create trigger vote_no_delete before delete on approval_vote
when exists (select 1 from approval_request where id = old.approval_request_id)
begin
  select raise(abort, 'Votes go only with their whole approval.');
end;

-- ---------------------------------------------------------------------------
-- Who is told
-- ---------------------------------------------------------------------------

-- `approval_to_tell` is defined where it is known whose a job is, in 0015.
create trigger approval_closed after update of outcome on approval_request
when old.outcome is null and new.outcome is not null
begin
  delete from approval_approver where approval_request_id = new.id;
  delete from approval_notice where approval_request_id = new.id;
  insert into approval_to_tell values (new.id, 'settle', new.closed_at);
end;

-- ---------------------------------------------------------------------------
-- What follows from a change of a job
-- ---------------------------------------------------------------------------

create trigger job_left_approval after update of status on job
when old.status = 'WAITING_FOR_APPROVAL' and new.status <> old.status
begin
  update approval_request
  set decision = iif(new.revision <> old.revision and new.note ->> 'approval_request_id' is id, new.note ->> 'decision', null),
    decided_by = iif(new.revision <> old.revision and new.note ->> 'approval_request_id' is id, new.note ->> 'decided_by', null),
    reason = (
      select v.reason from approval_vote v
      where v.approval_request_id = approval_request.id and v.user_account_id = new.note ->> 'decided_by'),
    edited_details = (
      select v.edited_details from approval_vote v
      where v.approval_request_id = approval_request.id and v.user_account_id = new.note ->> 'decided_by'),
    used_at = iif(
      new.revision <> old.revision and new.note ->> 'approval_request_id' is id
        and new.note ->> 'decision' in ('approved', 'denied'), new.updated_at, null),
    outcome = iif(
      new.revision <> old.revision and new.note ->> 'approval_request_id' is id,
      coalesce(new.note ->> 'outcome', 'cancelled'), 'cancelled'),
    closed_at = new.updated_at,
    remind_at = null,
    escalate_at = null
  where job_id = new.id and token_hash = old.approval_token and outcome is null;
end;

-- The run of a job that was claimed is there before its entry goes: whoever settles the key at that moment finds it held.
drop trigger job_started;
create trigger job_started after update of status on job
when new.status = 'RUNNING' and (old.status = 'PENDING' or old.status = 'RETRY')
begin
  insert into job_run
    (id, job_id, attempt, worker_id, tenant_id, queue, job_type, serial_key, template_id, params_snapshot,
     started_at)
  values (new.run_id, new.id, new.attempt, new.worker_id, new.tenant_id, new.queue, new.job_type,
    new.serial_key, new.template_id, new.payload, new.updated_at);
  delete from queue_entry where job_id = new.id;
end;

-- One that was approved has a run that nobody owns, and queues to be taken over.
create trigger job_went_on after update of status on job
when new.status = 'RUNNING' and old.status = 'WAITING_FOR_APPROVAL'
begin
  insert into job_run
    (id, job_id, attempt, worker_id, tenant_id, queue, job_type, serial_key, template_id, params_snapshot,
     started_at)
  values (new.run_id, new.id, new.attempt, new.worker_id, new.tenant_id, new.queue, new.job_type,
    new.serial_key, new.template_id, new.payload, new.updated_at);
  update counter set value = value + 1 where name = 'queue_entry' and new.worker_id is null;
  update job set worker_job_id = (select value from counter where name = 'queue_entry')
  where id = new.id and new.worker_id is null;
  insert into queue_entry
    (id, job_id, tenant_id, queue, job_type, state, rank, position, created_at, due_at, serial_key, by_tenant)
  select
    (select value from counter where name = 'queue_entry'),
    new.id, new.tenant_id, new.queue, new.job_type, iif(new.serial_key is null, 'ready', 'blocked'),
    -new.priority, new.position, new.created_at, new.updated_at, new.serial_key,
    new.queue <> 'cortex' and exists (
      select 1 from control
      where (scope = 'tenant' and name = new.tenant_id and (paused or max_running is not null))
        or (scope = 'queue' and name = new.queue and fair_share))
  where new.worker_id is null;
end;

create trigger job_taken_over after update of worker_id on job
when old.status = 'RUNNING' and new.status = 'RUNNING' and old.worker_id is null and new.worker_id is not null
begin
  update job_run
  set worker_id = new.worker_id
  where job_id = new.id and id = new.run_id and status = 'RUNNING';
  delete from queue_entry where job_id = new.id;
end;

-- One that nobody has taken over stops: its entry goes before anything else follows.
create trigger job_left_unclaimed before update of status on job
when old.status = 'RUNNING' and old.worker_id is null and new.status <> 'RUNNING'
begin
  delete from queue_entry where job_id = old.id;
end;

-- Also for clients that do not switch foreign keys on.
create trigger job_left_no_approvals after delete on job
begin
  delete from approval_request where job_id = old.id;
end;
create trigger approval_left_nothing after delete on approval_request
begin
  delete from approval_vote where approval_request_id = old.id;
  delete from approval_token where approval_request_id = old.id;
  delete from approval_approver where approval_request_id = old.id;
  delete from approval_notice where approval_request_id = old.id;
end;
