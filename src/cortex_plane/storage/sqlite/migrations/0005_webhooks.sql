-- Webhooks: who is told when a job ends, or is held because its code does not fit.
-- A delivery is a job of the internal queue, made in the transaction that ends the other.

create table webhook_endpoint (
  id text primary key,
  tenant_id text not null references tenant (id),
  url text not null check (url <> ''),
  secret text not null check (secret <> ''),
  events text not null check (json_type(events) = 'array'),
  enabled integer not null default 1 check (enabled in (0, 1)),
  description text,
  allow_private integer not null default 0 check (allow_private in (0, 1)),
  created_by text,
  created_at integer not null,
  disabled_at integer,
  disabled_reason text,
  constraint disabled_at_exactly_when_disabled check (enabled = (disabled_at is null)),
  constraint disabled_reason_only_when_disabled check (disabled_reason is null or not enabled)
) strict;
create index webhook_endpoint_enabled on webhook_endpoint (tenant_id) where enabled = 1;

-- Operators in a channel are told once in a while of what many jobs have in common.
create table webhook_notice (
  endpoint_id text not null references webhook_endpoint (id) on delete cascade,
  subject text not null,
  event_id text not null,
  told_at integer not null,
  primary key (endpoint_id, subject)
) strict, without rowid;

-- A job ends once, so its event has an id that can be told from the job's: the same for each endpoint and each attempt.
-- Long outputs stay out of the message; who wants one asks for the job.
-- A job that failed because nobody knows whether a tool call took effect is told of as job.uncertain too.
create trigger job_ended_for_webhooks after update of status on job
when new.finished_at is not null and old.finished_at is null and new.queue <> 'cortex'
  and exists (select 1 from webhook_endpoint where tenant_id = new.tenant_id and enabled = 1)
begin
  insert into job
    (id, tenant_id, agent_id, job_type, queue, position, payload, max_retries, worker_job_id, created_by, cause, actor,
     created_at, queued_at, updated_at)
  select
    printf('%08x-%04x-7%s-8%s-%s', (new.updated_at / 1000) >> 16, (new.updated_at / 1000) & 65535,
      substr(lower(hex(randomblob(2))), 2), substr(lower(hex(randomblob(2))), 2), lower(hex(randomblob(6)))),
    new.tenant_id, a.id, a.job_type, 'cortex',
    (select value from counter where name = 'position') + 100 * row_number() over (order by e.id, t.type),
    json_object(
      'endpoint_id', e.id,
      'event_id', 'evt_' || replace(new.id, '-', '') || t.suffix,
      'event', json_object(
        'type', t.type,
        'timestamp', strftime('%Y-%m-%dT%H:%M:%S', new.finished_at / 1000000, 'unixepoch')
          || iif(new.finished_at % 1000000, printf('.%06d', new.finished_at % 1000000), '') || '+00:00',
        'data', json_object(
          'job_id', new.id,
          'agent', new.job_type,
          'queue', new.queue,
          'status', new.status,
          'attempt', new.attempt,
          'tags', json(new.tags),
          'error_message', new.error_message,
          'output', json(iif(length(new.output) <= 16384, new.output, 'null')),
          'output_omitted', json(iif(length(new.output) > 16384 or new.output_blob is not null, 'true', 'false')),
          'retry_of', new.retry_of,
          'retried_as', iif(new.revision = old.revision, null, json_extract(new.note, '$.retry_as'))))),
    coalesce(json_extract(a.skill_config, '$.retry.max_retries'), 3),
    (select value from counter where name = 'queue_entry') + row_number() over (order by e.id, t.type),
    a.job_type, 'submit', a.job_type, new.updated_at, new.updated_at, new.updated_at
  from webhook_endpoint e
  join agent a on a.job_type = 'cortex.webhook'
  cross join (
    select 'job.' || lower(new.status) as type, '' as suffix
    union all
    select 'job.uncertain', '_uncertain' where new.status = 'FAILED' and new.error ->> 'type' = 'ToolUncertain'
  ) t
  where e.tenant_id = new.tenant_id
    and e.enabled = 1
    and exists (
      select 1 from json_each(e.events) f
      where f.value = '*' or f.value = 'job.*' or f.value = t.type);
end;

-- A job may be held more than once; its revision tells the events apart.
create trigger job_held_for_webhooks after update of status on job
when new.status = 'RETRY' and old.status = 'RUNNING' and new.wait_reason = 'code_changed' and new.note ->> 'code' is not null
  and new.note ->> 'handed_back' is null and new.note ->> 'again' is null and new.queue <> 'cortex'
  and exists (select 1 from webhook_endpoint where tenant_id = new.tenant_id and enabled = 1)
begin
  insert into job
    (id, tenant_id, agent_id, job_type, queue, position, payload, max_retries, worker_job_id, created_by, cause, actor,
     created_at, queued_at, updated_at)
  select
    printf('%08x-%04x-7%s-8%s-%s', (new.updated_at / 1000) >> 16, (new.updated_at / 1000) & 65535,
      substr(lower(hex(randomblob(2))), 2), substr(lower(hex(randomblob(2))), 2), lower(hex(randomblob(6)))),
    new.tenant_id, a.id, a.job_type, 'cortex',
    (select value from counter where name = 'position') + 100 * row_number() over (order by e.id),
    json_object(
      'endpoint_id', e.id,
      'event_id', 'evt_' || replace(new.id, '-', '') || '_held_' || new.revision,
      'event', json_object(
        'type', 'job.held',
        'timestamp', strftime('%Y-%m-%dT%H:%M:%S', new.updated_at / 1000000, 'unixepoch')
          || iif(new.updated_at % 1000000, printf('.%06d', new.updated_at % 1000000), '') || '+00:00',
        'data', json_object(
          'job_id', new.id,
          'agent', new.job_type,
          'queue', new.queue,
          'status', new.status,
          'attempt', new.attempt,
          'tags', json(new.tags),
          'wait_reason', new.wait_reason,
          'step', new.error ->> 'step',
          'error_message', new.error ->> 'message'))),
    coalesce(json_extract(a.skill_config, '$.retry.max_retries'), 3),
    (select value from counter where name = 'queue_entry') + row_number() over (order by e.id),
    a.job_type, 'submit', a.job_type, new.updated_at, new.updated_at, new.updated_at
  from webhook_endpoint e
  join agent a on a.job_type = 'cortex.webhook'
  where e.tenant_id = new.tenant_id
    and e.enabled = 1
    and exists (
      select 1 from json_each(e.events) f
      where f.value = '*' or f.value = 'job.*' or f.value = 'job.held');
end;

-- Deliveries (webhooks, notifications) that failed are tried again later: after as long as was tried in vain, five minutes at least,
-- until a week after the first was submitted.
create table failed_delivery (
  job_id text primary key references job (id) on delete cascade,
  retry_at integer not null,
  give_up_at integer not null
) strict, without rowid;
create index failed_delivery_due on failed_delivery (retry_at);

create trigger delivery_failed after update of status on job
when new.status = 'FAILED' and old.status <> 'FAILED' and new.queue = 'cortex' and new.job_type in ('cortex.notify', 'cortex.webhook')
begin
  insert into failed_delivery (job_id, retry_at, give_up_at)
  select new.id, new.updated_at + max(300000000, new.updated_at - f.created_at), f.created_at + 604800000000
  from job f
  where f.id = coalesce(new.effect_root, new.id)
    and new.updated_at < f.created_at + 604800000000;
end;
