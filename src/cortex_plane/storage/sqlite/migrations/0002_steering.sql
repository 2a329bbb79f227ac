-- Steering: who decides what runs when, and what the claim makes of it.

create table direct_reservation (
  id text primary key,
  queue text not null check (queue <> ''),
  job_id text not null unique,
  reserved_by text not null,
  reserved_at integer not null,
  expires_at integer not null,
  status text not null default 'ACTIVE' check (status in ('ACTIVE', 'RELEASED', 'EXPIRED')),
  ended_at integer,
  constraint ended_at_exactly_when_over check ((status = 'ACTIVE') = (ended_at is null))
) strict;
create unique index direct_reservation_one_active on direct_reservation (queue) where status = 'ACTIVE';

-- Which job holds a key. The last one that was submitted with it.
create table job_key (
  tenant_id text not null,
  job_key text not null,
  job_id text not null,
  primary key (tenant_id, job_key)
) strict, without rowid;

-- How often each tenant had its turn in a queue that shares fairly. The tenant of zeros is the clock of the queue.
create table fair_turn (
  queue text not null,
  tenant_id text not null,
  served integer not null,
  primary key (queue, tenant_id)
) strict, without rowid;

-- While there is a row, waiting jobs are moved into lanes of their tenants, or out of them, page by page, up to the job that it names.
create table lane_pass (
  id integer primary key check (id = 1),
  after text not null default '00000000-0000-0000-0000-000000000000',
  again integer not null default 0 check (again in (0, 1))
) strict;

-- A waiting job keeps its place in the queue in step with its own fields; any other job has no place to change.
create trigger job_order_fixed before update of priority, position on job
when (new.priority <> old.priority or new.position <> old.position) and old.status <> 'PENDING' and old.status <> 'RETRY'
begin
  select raise(abort, 'Only a job that waits can change its priority or position.');
end;
create trigger job_reordered after update of priority, position on job
when new.priority <> old.priority or new.position <> old.position
begin
  update queue_entry set rank = -new.priority, position = new.position where job_id = new.id;
  insert into key_to_settle select new.tenant_id, new.serial_key where new.serial_key is not null;
end;

-- A reservation ends with the run that it was made for, or with its job.
create trigger job_released after update of status on job
when new.status <> 'RUNNING' and old.status <> new.status
  and exists (select 1 from direct_reservation where status = 'ACTIVE' and job_id = new.id)
begin
  insert into audit_log (at, actor, action, object_type, object_id, details)
  select new.updated_at, reserved_by, 'RESERVATION_RELEASED', 'reservation', id, json_object('queue', queue, 'job_id', job_id)
  from direct_reservation where job_id = new.id and status = 'ACTIVE';
  update direct_reservation set status = 'RELEASED', ended_at = new.updated_at where job_id = new.id and status = 'ACTIVE';
end;
