-- The sealed audit log: entries are written by everybody at once, and chained afterwards, in batches, by one row each.

create table audit_seal (
  number integer primary key check (number > 0),
  first_seq integer not null,
  last_seq integer not null,
  entries integer not null check (entries > 0),
  fingerprints blob not null,
  digest text not null check (length(digest) = 64),
  previous_digest text not null check (length(previous_digest) = 64),
  sealed_at integer not null,
  constraint a_fingerprint_for_each_entry check (length(fingerprints) = entries * 40),
  constraint first_is_not_after_last check (first_seq <= last_seq)
) strict;

-- Which seals were sent elsewhere, by SHA-256 of the address.
create table seal_export (
  target text primary key check (length(target) = 64),
  number integer not null check (number > 0)
) strict;

create trigger seal_no_update before update on audit_seal
begin
  select raise(abort, 'Rows of audit_seal are never changed or deleted.');
end;
create trigger seal_no_delete before delete on audit_seal
begin
  select raise(abort, 'Rows of audit_seal are never changed or deleted.');
end;
create trigger seal_no_replace before insert on audit_seal
when exists (select 1 from audit_seal where number = new.number)
begin
  select raise(abort, 'Rows of audit_seal are never changed or deleted.');
end;

create trigger audit_details_are_json before insert on audit_log
when json_valid(new.details) = 0
begin
  select raise(abort, 'The details of an audit entry must be JSON.');
end;

-- For people who look, newest first. Those of one object are few; they have their index already. Completions are most of
-- all entries, and nobody asks who completed what: each of these indexes would cost every job for nothing.
create index audit_log_newest on audit_log (at);
create index audit_log_of_actor on audit_log (actor, at) where actor is not null and action <> 'JOB_COMPLETED';
create index audit_log_of_action on audit_log (action, at) where action <> 'JOB_COMPLETED';
create index audit_log_of_tenant on audit_log (tenant_id, at) where tenant_id is not null and action <> 'JOB_COMPLETED';
