-- Approvals: what people were asked, how they voted, and how a job that waited goes on.
--
--   RUNNING ──▶ WAITING_FOR_APPROVAL     with a request; job.approval_token names it
--   the job leaves that state ──▶ its request closes, as the note of that change says; whoever was told is told how it ended
--   ... as RUNNING ──▶ an open run that no worker owns, and a queue entry: the claim that takes the entry takes the run over
--
-- So a request cannot be closed while its job waits, and a job cannot stop waiting and leave its request open.
-- Lock order everywhere: worker, queue entry, job, run, approval request.

create type cortex.approval_decision as enum ('approved', 'denied', 'expired');

create table cortex.approval_request (
  id uuid primary key,
  job_id uuid not null,
  run_id uuid not null,
  tenant_id uuid not null,
  gate_key text not null check (gate_key <> ''),
  token_hash text not null check (length(token_hash) = 64),
  requested_by_agent_id uuid not null references cortex.agent (id) on delete restrict,
  approver_user_account_id uuid references cortex.user_account (id) on delete set null,
  designated boolean not null,
  approvers jsonb not null,
  escalate_to jsonb not null,
  notification_channels jsonb not null default '[]' check (jsonb_typeof(notification_channels) = 'array'),
  action_summary text not null,
  action_details jsonb not null default '{}',
  digest text not null check (length(digest) = 64),
  quorum int not null default 1 check (quorum > 0),
  votes int not null default 0 check (votes >= 0),
  no_self_approval boolean not null default false,
  editable jsonb not null default 'false',
  on_expiry text not null default 'fail' check (on_expiry in ('fail', 'deny', 'approve', 'default')),
  default_value jsonb not null default 'null',
  on_denial text not null default 'fail' check (on_denial in ('fail', 'raise')),
  supersedes uuid,
  decision cortex.approval_decision,
  decided_by uuid references cortex.user_account (id) on delete set null,
  reason text,
  edited_details jsonb,
  used_at timestamptz,
  outcome text check (outcome in ('approved', 'denied', 'failed', 'defaulted', 'cancelled', 'superseded')),
  closed_at timestamptz,
  ttl_seconds double precision not null check (ttl_seconds > 0),
  remind_after_seconds double precision check (remind_after_seconds > 0),
  remind_at timestamptz,
  reminders int not null default 0 check (reminders >= 0),
  escalate_at timestamptz,
  escalated_at timestamptz,
  expires_at timestamptz not null,
  created_at timestamptz not null default cortex.now(),

  constraint chk_action_summary_not_empty check (length(trim(action_summary)) > 0),
  constraint uq_approval_token_hash unique (token_hash),
  constraint chk_decision_used_at check (
    (decision in ('approved', 'denied') and used_at is not null)
    or decision = 'expired'
    or (decision is null and used_at is null)),
  constraint closed_at_exactly_with_an_outcome check ((outcome is null) = (closed_at is null)),
  constraint a_decision_has_an_outcome check (decision is null or (outcome is not null and outcome not in ('cancelled', 'superseded'))),
  constraint only_people_edit check (edited_details is null or decision = 'approved')
);
create index idx_approval_request_job_id on cortex.approval_request (job_id, created_at desc);
create index idx_approval_request_expired on cortex.approval_request (expires_at) where outcome is null;
create index idx_approval_request_approver on cortex.approval_request (approver_user_account_id, created_at desc)
  where outcome is null;
create index idx_approval_request_tenant on cortex.approval_request (tenant_id, id);
create index idx_approval_request_open on cortex.approval_request (id desc) where outcome is null;
create index idx_approval_request_open_of_job on cortex.approval_request (job_id) where outcome is null;
create index idx_approval_request_open_to_all on cortex.approval_request (tenant_id, id desc)
  where outcome is null and not designated;
create index idx_approval_request_remind on cortex.approval_request (remind_at) where outcome is null and remind_at is not null;
create index idx_approval_request_escalate on cortex.approval_request (escalate_at)
  where outcome is null and escalate_at is not null;

create table cortex.approval_vote (
  approval_request_id uuid not null references cortex.approval_request (id) on delete cascade,
  user_account_id uuid not null references cortex.user_account (id),
  decision text not null check (decision in ('approved', 'denied')),
  reason text,
  edited_details jsonb,
  door text not null check (door <> ''),
  created_at timestamptz not null default cortex.now(),
  primary key (approval_request_id, user_account_id)
);
create index approval_vote_of_user on cortex.approval_vote (user_account_id);

create table cortex.approval_token (
  token_hash text primary key check (length(token_hash) = 64),
  approval_request_id uuid not null references cortex.approval_request (id) on delete cascade,
  user_account_id uuid not null references cortex.user_account (id) on delete cascade,
  channel_type text not null,
  channel_user_id text not null,
  serial int not null,
  created_at timestamptz not null default cortex.now(),
  replaced_at timestamptz
);
create index approval_token_of_user on cortex.approval_token (user_account_id);
create index approval_token_of_address on cortex.approval_token (approval_request_id, user_account_id, channel_type, channel_user_id);

-- The inbox: whom the open requests are put to by name. Rows go when their request closes.
create table cortex.approval_approver (
  approval_request_id uuid not null references cortex.approval_request (id) on delete cascade,
  user_account_id uuid references cortex.user_account (id) on delete cascade,
  user_group_id uuid references cortex.user_group (id) on delete cascade,
  escalated boolean not null default false,
  constraint a_user_or_a_group check ((user_account_id is null) <> (user_group_id is null))
);
create index approval_approver_of_request on cortex.approval_approver (approval_request_id);
create index approval_approver_of_user on cortex.approval_approver (user_account_id, approval_request_id desc)
  where user_account_id is not null;
create index approval_approver_of_group on cortex.approval_approver (user_group_id, approval_request_id desc)
  where user_group_id is not null;

-- When each person was last asked about an open request, or reminded of it, however many ways there are in which it was put to them. Rows go
-- when the request closes.
create table cortex.approval_notice (
  approval_request_id uuid not null references cortex.approval_request (id) on delete cascade,
  user_account_id uuid not null references cortex.user_account (id) on delete cascade,
  notified_at timestamptz not null,
  untold boolean not null default false,
  primary key (approval_request_id, user_account_id)
);
create index approval_notice_of_user on cortex.approval_notice (user_account_id);

-- ---------------------------------------------------------------------------
-- What the database refuses
-- ---------------------------------------------------------------------------

create function cortex.refuse_loose_approval() returns trigger language plpgsql as $$
begin
  if new.outcome is null and exists (select 1 from cortex.job where id = new.job_id and approval_token = new.token_hash) then
    return new;
  end if;
  raise exception 'An approval opens only with its job: set job.status to WAITING_FOR_APPROVAL and job.approval_token to its hash.'
    using errcode = 'check_violation';
end $$;
create trigger approval_no_loose_insert before insert on cortex.approval_request
  for each row execute function cortex.refuse_loose_approval();

create function cortex.refuse_other_question() returns trigger language plpgsql as $$
begin
  raise exception 'What approval % asks never changes.', old.id using errcode = 'check_violation';
end $$;
create trigger approval_as_shown before update on cortex.approval_request
  for each row when (
    (new.id, new.job_id, new.run_id, new.tenant_id, new.gate_key, new.token_hash, new.requested_by_agent_id, new.designated,
     new.approvers, new.escalate_to, new.action_summary, new.action_details, new.digest, new.quorum, new.no_self_approval,
     new.editable, new.on_expiry, new.default_value, new.on_denial, new.supersedes, new.ttl_seconds, new.remind_after_seconds,
     new.expires_at, new.created_at)
    is distinct from
    (old.id, old.job_id, old.run_id, old.tenant_id, old.gate_key, old.token_hash, old.requested_by_agent_id, old.designated,
     old.approvers, old.escalate_to, old.action_summary, old.action_details, old.digest, old.quorum, old.no_self_approval,
     old.editable, old.on_expiry, old.default_value, old.on_denial, old.supersedes, old.ttl_seconds, old.remind_after_seconds,
     old.expires_at, old.created_at))
  execute function cortex.refuse_other_question();

create function cortex.refuse_deciding_again() returns trigger language plpgsql as $$
begin
  raise exception 'Approval % is closed as %; that is final.', old.id, old.outcome using errcode = 'check_violation';
end $$;
create trigger approval_closed_for_good before update on cortex.approval_request
  for each row when (
    old.outcome is not null and
    (new.decision, new.decided_by, new.reason, new.edited_details, new.used_at, new.outcome, new.closed_at, new.votes,
     new.remind_at, new.reminders, new.escalate_at, new.escalated_at)
    is distinct from
    (old.decision, old.decided_by, old.reason, old.edited_details, old.used_at, old.outcome, old.closed_at, old.votes,
     old.remind_at, old.reminders, old.escalate_at, old.escalated_at))
  execute function cortex.refuse_deciding_again();

create function cortex.refuse_deciding_by_hand() returns trigger language plpgsql as $$
begin
  if exists (select 1 from cortex.job where id = old.job_id and approval_token = old.token_hash) then
    raise exception 'Approval % closes only with its job: decide it, or cancel the job.', old.id using errcode = 'check_violation';
  end if;
  return new;
end $$;
create trigger approval_closes_with_job before update of outcome on cortex.approval_request
  for each row when (old.outcome is null and new.outcome is not null)
  execute function cortex.refuse_deciding_by_hand();

create trigger approval_no_delete before delete on cortex.approval_request
  for each row execute function cortex.refuse_while_job_exists();
create trigger approval_no_truncate before truncate on cortex.approval_request execute function cortex.refuse_change();

create function cortex.refuse_late_vote() returns trigger language plpgsql as $$
begin
  if exists (select 1 from cortex.approval_request where id = new.approval_request_id and outcome is null) then
    return new;
  end if;
  raise exception 'There is no open approval %.', new.approval_request_id using errcode = 'check_violation';
end $$;
create trigger vote_in_time before insert on cortex.approval_vote
  for each row execute function cortex.refuse_late_vote();
create trigger vote_no_update before update on cortex.approval_vote for each row execute function cortex.refuse_change();

create function cortex.refuse_unvoting() returns trigger language plpgsql as $$
begin
  if exists (select 1 from cortex.approval_request where id = old.approval_request_id) then
    raise exception 'Votes go only with their whole approval.' using errcode = 'check_violation';
  end if;
  return old;
end $$;
create trigger vote_no_delete before delete on cortex.approval_vote
  for each row execute function cortex.refuse_unvoting();
create trigger vote_no_truncate before truncate on cortex.approval_vote execute function cortex.refuse_change();

-- ---------------------------------------------------------------------------
-- Who is told
-- ---------------------------------------------------------------------------

-- `notify_approvers` is defined where it is known whose a job is, in 0015.
create function cortex.approval_closed() returns trigger language plpgsql as $$
begin
  delete from cortex.approval_approver where approval_request_id = new.id;
  delete from cortex.approval_notice where approval_request_id = new.id;
  perform cortex.notify_approvers(new.id, 'settle');
  return null;
end $$;
create trigger approval_closed after update of outcome on cortex.approval_request
  for each row when (old.outcome is null and new.outcome is not null)
  execute function cortex.approval_closed();

-- ---------------------------------------------------------------------------
-- What follows from a change of a job
-- ---------------------------------------------------------------------------

-- Triggers of rows, not of statements: their conditions are judged without calling anything, and none holds for a job that
-- never waited for people.

create function cortex.job_left_approval() returns trigger language plpgsql set jit = off set enable_seqscan = off as $$
begin
  update cortex.approval_request r
  set decision = d.decision::cortex.approval_decision,
    decided_by = d.decided_by,
    reason = v.reason,
    edited_details = v.edited_details,
    used_at = case when d.decision in ('approved', 'denied') then new.updated_at end,
    outcome = coalesce(d.outcome, 'cancelled'),
    closed_at = new.updated_at,
    remind_at = null,
    escalate_at = null
  from (
    select r2.id,
      case when n.ours then new.note ->> 'decision' end as decision,
      case when n.ours then new.note ->> 'outcome' end as outcome,
      case when n.ours then (new.note ->> 'decided_by')::uuid end as decided_by
    from cortex.approval_request r2
    cross join lateral (select new.note ->> 'approval_request_id' = r2.id::text as ours) n
    where r2.job_id = new.id and r2.token_hash = old.approval_token
  ) d
  left join cortex.approval_vote v on v.approval_request_id = d.id and v.user_account_id = d.decided_by
  where r.id = d.id and r.outcome is null;
  if new.status = 'RUNNING' and new.worker_id is null then
    perform cortex.enter_queue_to_go_on(new);
  end if;
  return null;
end $$;
create trigger job_left_approval after update of status on cortex.job
  for each row when (old.status = 'WAITING_FOR_APPROVAL' and new.status <> old.status)
  execute function cortex.job_left_approval();

create function cortex.enter_queue_to_go_on(_job cortex.job) returns void language plpgsql as $$
begin
  insert into cortex.queue_entry
    (id, job_id, tenant_id, queue, job_type, state, rank, position, created_at, due_at, serial_key, by_tenant)
  values (coalesce(_job.worker_job_id, nextval('cortex.queue_entry_id')), _job.id, _job.tenant_id, _job.queue, _job.job_type,
    case when _job.serial_key is null then 'ready'::cortex.entry_state else 'blocked' end,
    -_job.priority, _job.position, _job.created_at, _job.updated_at, _job.serial_key,
    cortex.has_own_lane(_job.queue, _job.tenant_id));
  if _job.serial_key is null then
    perform pg_notify('cortex', 'ready:' || _job.queue);
  else
    perform cortex.settle_serial_keys(array[_job.tenant_id], array[_job.serial_key]);
  end if;
end $$;

create function cortex.job_taken_over() returns trigger language plpgsql set jit = off set enable_seqscan = off as $$
begin
  update cortex.job_run
    set worker_id = new.worker_id
    where job_id = new.id and id = new.run_id and status = 'RUNNING';
  update cortex.open_run set worker_id = new.worker_id where job_id = new.id and id = new.run_id;
  delete from cortex.queue_entry where job_id = new.id;
  return null;
end $$;
create trigger job_taken_over after update of worker_id on cortex.job
  for each row when (
    old.status = 'RUNNING' and new.status = 'RUNNING' and old.worker_id is null and new.worker_id is not null)
  execute function cortex.job_taken_over();

-- One that nobody has taken over is cancelled: its entry goes before anything else follows. A claim that holds the entry waits
-- for the job, so it must not be waited for; it then finds the job ended, and puts the entry away itself.
create function cortex.leave_queue_unclaimed() returns trigger language plpgsql set jit = off set enable_seqscan = off as $$
begin
  delete from cortex.queue_entry
    where job_id = (select e.job_id from cortex.queue_entry e where e.job_id = old.id for update skip locked);
  return new;
end $$;
create trigger job_left_unclaimed before update of status on cortex.job
  for each row when (old.status = 'RUNNING' and old.worker_id is null and new.status <> 'RUNNING')
  execute function cortex.leave_queue_unclaimed();

create function cortex.job_left_no_approvals() returns trigger language plpgsql
  set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
begin
  delete from cortex.approval_request where job_id = any (array(select id from old_job));
  return null;
end $$;
create trigger job_left_no_approvals after delete on cortex.job
  referencing old table as old_job
  for each statement execute function cortex.job_left_no_approvals();

-- ---------------------------------------------------------------------------
-- What workers call
-- ---------------------------------------------------------------------------

-- Of entries that this transaction has locked, removes those whose jobs ended before they could be claimed.
create function cortex.put_away_entries(_taken uuid[]) returns void language plpgsql set jit = off set enable_seqscan = off as $$
declare
  _tenants uuid[];
  _keys text[];
begin
  with gone as (
    delete from cortex.queue_entry e
    where e.job_id = any (_taken) and exists (select 1 from cortex.job j where j.id = e.job_id and j.finished_at is not null)
    returning e.tenant_id, e.serial_key
  )
  select array_agg(tenant_id), array_agg(serial_key) into _tenants, _keys from gone where serial_key is not null;
  if _keys is not null then
    perform cortex.settle_serial_keys(_tenants, _keys);
  end if;
end $$;

comment on table cortex.approval_request is 'What people were asked, one row for each time, and how it ended.';
comment on column cortex.approval_request.id is 'UUIDv7.';
comment on column cortex.approval_request.job_id is 'The job that waits for it.';
comment on column cortex.approval_request.run_id is 'The run that asked.';
comment on column cortex.approval_request.tenant_id is 'Tenant of the job.';
comment on column cortex.approval_request.gate_key is 'Which gate of the handler asked.';
comment on column cortex.approval_request.token_hash is 'Hash of a token that is never sent; job.approval_token while the job waits for this.';
comment on column cortex.approval_request.requested_by_agent_id is 'The agent that asks.';
comment on column cortex.approval_request.approver_user_account_id is 'The one person who may decide; null when it is not one person.';
comment on column cortex.approval_request.designated is 'Only those named may decide; otherwise whoever may approve in the tenant.';
comment on column cortex.approval_request.approvers is 'Users and groups who may decide, by id.';
comment on column cortex.approval_request.escalate_to is 'Users and groups who may decide too, once it is escalated.';
comment on column cortex.approval_request.notification_channels is 'Messages that were sent: {channel_type, channel_user_id, notification_sent_at, message_id, …}.';
comment on column cortex.approval_request.action_summary is 'One line: what the agent wants to do.';
comment on column cortex.approval_request.action_details is 'Structured details of it, as they were shown.';
comment on column cortex.approval_request.digest is 'SHA-256 over tenant, job, gate, summary and details: what was shown.';
comment on column cortex.approval_request.quorum is 'How many must approve.';
comment on column cortex.approval_request.votes is 'How many have.';
comment on column cortex.approval_request.no_self_approval is 'Whoever submitted the job may not decide.';
comment on column cortex.approval_request.editable is 'What an approver may change of the details: false, true, a list of keys, or a JSON Schema.';
comment on column cortex.approval_request.on_expiry is 'When nobody decides in time: fail, deny, approve or default.';
comment on column cortex.approval_request.default_value is 'What the job goes on with when it expires, for default.';
comment on column cortex.approval_request.on_denial is 'When it is denied: fail the job, or raise in its handler.';
comment on column cortex.approval_request.supersedes is 'The earlier request for the same gate, when the code worded it otherwise and asked again.';
comment on column cortex.approval_request.decision is 'What people decided, or that they did not in time; null while open and when cancelled.';
comment on column cortex.approval_request.decided_by is 'Whose vote closed it; null unless people did.';
comment on column cortex.approval_request.reason is 'Why, in their words.';
comment on column cortex.approval_request.edited_details is 'The details as the approver changed them; null when they did not.';
comment on column cortex.approval_request.used_at is 'When people decided.';
comment on column cortex.approval_request.outcome is 'What it means for the job; null while open.';
comment on column cortex.approval_request.closed_at is 'When it closed, however it did.';
comment on column cortex.approval_request.ttl_seconds is 'How long people had.';
comment on column cortex.approval_request.remind_after_seconds is 'After how long they are reminded, each time.';
comment on column cortex.approval_request.remind_at is 'When they are reminded next.';
comment on column cortex.approval_request.reminders is 'How often they were.';
comment on column cortex.approval_request.escalate_at is 'When it is to be escalated.';
comment on column cortex.approval_request.escalated_at is 'When it was.';
comment on column cortex.approval_request.expires_at is 'From then on nobody can decide.';
comment on column cortex.approval_request.created_at is 'When it was asked.';

comment on table cortex.approval_vote is 'Who decided what; one row for each person. Never changed.';
comment on column cortex.approval_vote.approval_request_id is 'About which request.';
comment on column cortex.approval_vote.user_account_id is 'Who.';
comment on column cortex.approval_vote.decision is 'approved or denied.';
comment on column cortex.approval_vote.reason is 'Why, in their words.';
comment on column cortex.approval_vote.edited_details is 'The details as they changed them.';
comment on column cortex.approval_vote.door is 'From where: api, dashboard, cli, or a channel.';
comment on column cortex.approval_vote.created_at is 'When.';

comment on table cortex.approval_token is 'Tokens that were sent: each is the identity of one addressee for one request.';
comment on column cortex.approval_token.token_hash is 'SHA-256 of the token, in hexadecimal. The token itself is nowhere.';
comment on column cortex.approval_token.approval_request_id is 'What it decides.';
comment on column cortex.approval_token.user_account_id is 'Whose it is.';
comment on column cortex.approval_token.channel_type is 'By which service it was sent.';
comment on column cortex.approval_token.channel_user_id is 'To which address there.';
comment on column cortex.approval_token.serial is 'Counts the tokens of one address. When a message was delivered, those with a lower number are void.';
comment on column cortex.approval_token.replaced_at is 'When a message to the same address that was made later was delivered: this one is void. A revoked token is deleted.';
comment on column cortex.approval_token.created_at is 'When it was made.';

comment on table cortex.approval_approver is 'Whom the open requests are put to by name. Rows go when their request closes.';
comment on column cortex.approval_approver.approval_request_id is 'Which request.';
comment on column cortex.approval_approver.user_account_id is 'A person, or';
comment on column cortex.approval_approver.user_group_id is 'a group.';
comment on column cortex.approval_approver.escalated is 'They were added when it was escalated.';

comment on table cortex.approval_notice is 'When each person was last asked about an open request, or reminded of it. Rows go when their request closes.';
comment on column cortex.approval_notice.approval_request_id is 'Which request.';
comment on column cortex.approval_notice.user_account_id is 'Who.';
comment on column cortex.approval_notice.notified_at is 'When. Their next reminder counts from then.';
comment on column cortex.approval_notice.untold is 'Of use within a transaction on SQLite only, which marks there whom it is about to tell.';
