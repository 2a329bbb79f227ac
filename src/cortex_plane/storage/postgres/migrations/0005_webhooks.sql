-- Webhooks: who is told when a job ends, or is held because its code does not fit.
-- A delivery is a job of the internal queue, made in the transaction that ends the other.

create table cortex.webhook_endpoint (
  id uuid primary key default cortex.uuid7(),
  tenant_id uuid not null references cortex.tenant (id),
  url text not null check (url <> ''),
  secret text not null check (secret <> ''),
  events jsonb not null check (jsonb_typeof(events) = 'array'),
  enabled boolean not null default true,
  description text,
  allow_private boolean not null default false,
  created_by text,
  created_at timestamptz not null default cortex.now(),
  disabled_at timestamptz,
  disabled_reason text,
  constraint disabled_at_exactly_when_disabled check (enabled = (disabled_at is null)),
  constraint disabled_reason_only_when_disabled check (disabled_reason is null or not enabled)
);
create index webhook_endpoint_enabled on cortex.webhook_endpoint (tenant_id) where enabled;

-- Operators in a channel are told once in a while of what many jobs have in common.
create table cortex.webhook_notice (
  endpoint_id uuid not null references cortex.webhook_endpoint (id) on delete cascade,
  subject text not null,
  event_id text not null,
  told_at timestamptz not null,
  primary key (endpoint_id, subject)
);

-- A job ends once, so its event has an id that can be told from the job's: the same for each endpoint and each attempt.
-- Long outputs stay out of the message; who wants one asks for the job.
-- A job that failed because nobody knows whether a tool call took effect is told of as job.uncertain too.
create function cortex.tell_webhooks(_ended uuid[]) returns void language sql as $$
  insert into cortex.job (tenant_id, agent_id, job_type, queue, payload, max_retries, created_by, cause, actor)
  select n.tenant_id, a.id, a.job_type, 'cortex',
    jsonb_build_object(
      'endpoint_id', e.id,
      'event_id', 'evt_' || replace(n.id::text, '-', '') || t.suffix,
      'event', jsonb_build_object(
        'type', t.type,
        'timestamp', cortex.iso(n.finished_at),
        'data', jsonb_build_object(
          'job_id', n.id,
          'agent', n.job_type,
          'queue', n.queue,
          'status', n.status,
          'attempt', n.attempt,
          'tags', n.tags,
          'error_message', n.error_message,
          'output', case when length(n.output::text) <= 16384 then n.output end,
          'output_omitted', coalesce(length(n.output::text) > 16384, n.output_blob is not null),
          'retry_of', n.retry_of,
          'retried_as', n.note ->> 'retry_as'))),
    coalesce((a.skill_config #>> '{retry,max_retries}')::int, 3), a.job_type, 'submit', a.job_type
  from cortex.job n
  join cortex.webhook_endpoint e on e.tenant_id = n.tenant_id and e.enabled
  join cortex.agent a on a.job_type = 'cortex.webhook'
  cross join lateral (
    select 'job.' || lower(n.status::text) as type, '' as suffix
    union all
    select 'job.uncertain', '_uncertain' where n.status = 'FAILED' and n.error ->> 'type' = 'ToolUncertain'
  ) t
  where n.id = any (_ended)
    and n.queue <> 'cortex'
    and e.events ?| array['*', 'job.*', t.type]
  order by n.id, e.id, t.type;
$$;

-- A job may be held more than once; its revision tells the events apart.
create function cortex.tell_webhooks_of_hold(_job uuid) returns void language sql as $$
  insert into cortex.job (tenant_id, agent_id, job_type, queue, payload, max_retries, created_by, cause, actor)
  select n.tenant_id, a.id, a.job_type, 'cortex',
    jsonb_build_object(
      'endpoint_id', e.id,
      'event_id', 'evt_' || replace(n.id::text, '-', '') || '_held_' || n.revision,
      'event', jsonb_build_object(
        'type', 'job.held',
        'timestamp', cortex.iso(n.updated_at),
        'data', jsonb_build_object(
          'job_id', n.id,
          'agent', n.job_type,
          'queue', n.queue,
          'status', n.status,
          'attempt', n.attempt,
          'tags', n.tags,
          'wait_reason', n.wait_reason,
          'step', n.error ->> 'step',
          'error_message', n.error ->> 'message'))),
    coalesce((a.skill_config #>> '{retry,max_retries}')::int, 3), a.job_type, 'submit', a.job_type
  from cortex.job n
  join cortex.webhook_endpoint e on e.tenant_id = n.tenant_id and e.enabled
  join cortex.agent a on a.job_type = 'cortex.webhook'
  where n.id = _job
    and e.events ?| array['*', 'job.*', 'job.held']
  order by e.id;
$$;

-- Deliveries (webhooks, notifications) that failed are tried again later: after as long as was tried in vain, five minutes at least,
-- until a week after the first was submitted.
create table cortex.failed_delivery (
  job_id uuid primary key,
  retry_at timestamptz not null,
  give_up_at timestamptz not null
);
create index failed_delivery_due on cortex.failed_delivery (retry_at);

create function cortex.keep_failed_deliveries(_failed uuid[]) returns void language sql as $$
  insert into cortex.failed_delivery (job_id, retry_at, give_up_at)
  select j.id, j.updated_at + greatest(interval '5 minutes', j.updated_at - f.created_at), f.created_at + interval '7 days'
  from cortex.job j
  join cortex.job f on f.id = coalesce(j.effect_root, j.id)
  where j.id = any (_failed)
    and j.updated_at < f.created_at + interval '7 days';
$$;

comment on table cortex.failed_delivery is 'Deliveries that failed and are to be tried again. The row goes when that has happened.';
comment on column cortex.failed_delivery.job_id is 'The job that FAILED.';
comment on column cortex.failed_delivery.retry_at is 'When it is tried again, by a linked job.';
comment on column cortex.failed_delivery.give_up_at is 'After this it stays as it is: a week after the first of its chain was submitted.';
comment on table cortex.webhook_notice is 'What operators in a channel were told of last: others of the same subject are not told for a while.';
comment on column cortex.webhook_notice.endpoint_id is 'Who was told.';
comment on column cortex.webhook_notice.subject is 'The event and the agent.';
comment on column cortex.webhook_notice.event_id is 'Which event it was; it is told again until it has arrived.';
comment on column cortex.webhook_notice.told_at is 'When.';
comment on table cortex.webhook_endpoint is 'Who is told, by a signed HTTP request or in a channel, when a job ends or is held.';
comment on column cortex.webhook_endpoint.id is 'UUIDv7.';
comment on column cortex.webhook_endpoint.tenant_id is 'Only jobs of this tenant are told of.';
comment on column cortex.webhook_endpoint.url is 'Where the message goes: an HTTP address, or operators in a channel, such as email:ops@example.com.';
comment on column cortex.webhook_endpoint.secret is 'What messages are signed with, as Standard Webhooks writes it. Secret.';
comment on column cortex.webhook_endpoint.events is 'Which events: job.completed, job.failed, job.cancelled, job.held, job.uncertain, approval.undecidable, job.*, approval.* or *.';
comment on column cortex.webhook_endpoint.enabled is 'Events are told only while this is true.';
comment on column cortex.webhook_endpoint.description is 'What it is for, in the words of whoever added it.';
comment on column cortex.webhook_endpoint.allow_private is 'It may lead to an address that is not on the public Internet.';
comment on column cortex.webhook_endpoint.created_by is 'Who added it.';
comment on column cortex.webhook_endpoint.created_at is 'When.';
comment on column cortex.webhook_endpoint.disabled_at is 'When it was disabled; set exactly then.';
comment on column cortex.webhook_endpoint.disabled_reason is 'Why.';
