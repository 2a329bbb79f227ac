-- name: list
-- What was recorded about one object, oldest first.
select seq, at, tenant_id, actor, action, object_type, object_id, reason, source, details
from cortex.audit_log
where object_id = :object_id
order by seq;

-- name: looked_through
-- How many of the newest :looked_through entries there are, and the number of the oldest of them.
select count(*) as entries,
  (select seq
   from cortex.audit_log
   where at >= :since
     and (at, seq) < (:upper_at, :upper_seq)
   order by at desc, seq desc
   limit 1 offset :looked_through - 1) as last
from (
  select 1
  from cortex.audit_log
  where at >= :since
    and (at, seq) < (:upper_at, :upper_seq)
  order by at desc, seq desc
  limit :looked_through) newest;

-- name: page
-- Entries, newest first.
select seq, at, tenant_id, actor, action, object_type, object_id, reason, source, details
from cortex.audit_log
where at >= :since
  and (at, seq) < (:upper_at, :upper_seq)
order by at desc, seq desc
limit :limit;

-- name: page_of_action
-- Entries of one kind of action, newest first, but not of completions.
select seq, at, tenant_id, actor, action, object_type, object_id, reason, source, details
from cortex.audit_log
where action = :action
  and action <> 'JOB_COMPLETED'
  and at >= :since
  and (at, seq) < (:upper_at, :upper_seq)
  and (cast(:tenant_id as text) is null or cast(tenant_id as text) = cast(:tenant_id as text))
order by at desc, seq desc
limit :limit;

-- name: page_of_actor
-- Entries of one actor, newest first, without the completions of jobs.
select seq, at, tenant_id, actor, action, object_type, object_id, reason, source, details
from cortex.audit_log
where actor = :actor
  and action <> 'JOB_COMPLETED'
  and at >= :since
  and (at, seq) < (:upper_at, :upper_seq)
  and (cast(:action as text) is null or action = cast(:action as text))
  and (cast(:tenant_id as text) is null or cast(tenant_id as text) = cast(:tenant_id as text))
order by at desc, seq desc
limit :limit;

-- name: page_of_completions
-- Completions of jobs among the newest :looked_through entries, newest first: they are most of all entries, and have no index.
select seq, at, tenant_id, actor, action, object_type, object_id, reason, source, details
from (
  select seq, at, tenant_id, actor, action, object_type, object_id, reason, source, details
  from cortex.audit_log
  where at >= :since
    and (at, seq) < (:upper_at, :upper_seq)
  order by at desc, seq desc
  limit :looked_through) newest
where action = 'JOB_COMPLETED'
  and (cast(:actor as text) is null or actor = cast(:actor as text))
  and (cast(:tenant_id as text) is null or cast(tenant_id as text) = cast(:tenant_id as text))
order by at desc, seq desc
limit :limit;

-- name: page_of_object
-- Entries about one object, newest first. They are few: all are found by their index, then put in order.
with about as materialized (
  select seq, at, tenant_id, actor, action, object_type, object_id, reason, source, details
  from cortex.audit_log
  where object_id = :object_id
)
select seq, at, tenant_id, actor, action, object_type, object_id, reason, source, details
from about
where at >= :since
  and (at, seq) < (:upper_at, :upper_seq)
  and (cast(:actor as text) is null or actor = cast(:actor as text))
  and (cast(:action as text) is null or action = cast(:action as text))
  and (cast(:tenant_id as text) is null or cast(tenant_id as text) = cast(:tenant_id as text))
order by at desc, seq desc
limit :limit;

-- name: page_of_tenant
-- Entries of one tenant, newest first, without the completions of jobs.
select seq, at, tenant_id, actor, action, object_type, object_id, reason, source, details
from cortex.audit_log
where tenant_id = :tenant_id
  and action <> 'JOB_COMPLETED'
  and at >= :since
  and (at, seq) < (:upper_at, :upper_seq)
order by at desc, seq desc
limit :limit;

-- name: place
-- Where an entry stands in the order of time.
select at, seq
from cortex.audit_log
where seq = :seq;

-- name: record [postgres]
-- Records what somebody or something did.
-- Differs: a batch is a jsonb record set here.
insert into cortex.audit_log (tenant_id, actor, action, object_type, object_id, reason, source, details)
select tenant_id, actor, action, object_type, object_id, reason, source, nullif(details, 'null'::jsonb)
from jsonb_to_recordset(cast(:entries as jsonb)) as e(
  tenant_id uuid, actor text, action text, object_type text, object_id text, reason text, source text, details jsonb);

-- name: record [sqlite]
-- Records what somebody or something did.
-- Differs: a batch is jsonb_each here.
insert into cortex.audit_log (at, tenant_id, actor, action, object_type, object_id, reason, source, details)
select :now, value ->> 'tenant_id', value ->> 'actor', value ->> 'action', value ->> 'object_type', value ->> 'object_id',
  value ->> 'reason', value ->> 'source', nullif(value -> 'details', 'null')
from jsonb_each(:entries);
