-- Webhooks: who is told when a job ends.
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

-- A job ends once, so its event has an id that can be told from the job's: the same for each endpoint and each attempt.
-- Long outputs stay out of the message; who wants one asks for the job.
create function cortex.tell_webhooks(_ended uuid[]) returns void language sql as $$
  insert into cortex.job (tenant_id, agent_id, job_type, queue, payload, max_retries, created_by, cause, actor)
  select n.tenant_id, a.id, a.job_type, 'cortex',
    jsonb_build_object(
      'endpoint_id', e.id,
      'event_id', 'evt_' || replace(n.id::text, '-', ''),
      'event', jsonb_build_object(
        'type', 'job.' || lower(n.status::text),
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
          'output_omitted', coalesce(length(n.output::text) > 16384, false),
          'retry_of', n.retry_of,
          'retried_as', n.note ->> 'retry_as'))),
    coalesce((a.skill_config #>> '{retry,max_retries}')::int, 3), a.job_type, 'submit', a.job_type
  from cortex.job n
  join cortex.webhook_endpoint e on e.tenant_id = n.tenant_id and e.enabled
  join cortex.agent a on a.job_type = 'cortex.webhook'
  where n.id = any (_ended)
    and n.queue <> 'cortex'
    and e.events ?| array['*', 'job.*', 'job.' || lower(n.status::text)]
  order by n.id, e.id;
$$;

comment on table cortex.webhook_endpoint is 'Who is told, by a signed HTTP request, when a job ends.';
comment on column cortex.webhook_endpoint.id is 'UUIDv7.';
comment on column cortex.webhook_endpoint.tenant_id is 'Only jobs of this tenant are told of.';
comment on column cortex.webhook_endpoint.url is 'Where the message goes.';
comment on column cortex.webhook_endpoint.secret is 'What messages are signed with, as Standard Webhooks writes it. Secret.';
comment on column cortex.webhook_endpoint.events is 'Which events: job.completed, job.failed, job.cancelled, job.* or *.';
comment on column cortex.webhook_endpoint.enabled is 'Events are told only while this is true.';
comment on column cortex.webhook_endpoint.description is 'What it is for, in the words of whoever added it.';
comment on column cortex.webhook_endpoint.allow_private is 'It may lead to an address that is not on the public Internet.';
comment on column cortex.webhook_endpoint.created_by is 'Who added it.';
comment on column cortex.webhook_endpoint.created_at is 'When.';
comment on column cortex.webhook_endpoint.disabled_at is 'When it was disabled; set exactly then.';
comment on column cortex.webhook_endpoint.disabled_reason is 'Why.';
