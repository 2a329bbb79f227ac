-- The sealed audit log: entries are written by everybody at once, and chained afterwards, in batches, by one row each.
--
-- A number may be drawn before another and its transaction end after it. A seal must not pass over such an entry, so whoever
-- writes is given a transaction id before it draws a number. Then all that drew a number before a look have an id below the one
-- that the look itself is given, and when all ids up to that have ended, nothing can appear any more below what the look saw.
-- (The xmax of a snapshot would not do as the limit: transactions above it may be running.)

create table cortex.audit_seal (
  number bigint primary key check (number > 0),
  first_seq bigint not null,
  last_seq bigint not null,
  entries int not null check (entries > 0),
  fingerprints bytea not null,
  digest text not null check (length(digest) = 64),
  previous_digest text not null check (length(previous_digest) = 64),
  sealed_at timestamptz not null default cortex.now(),
  constraint a_fingerprint_for_each_entry check (length(fingerprints) = entries * 40),
  constraint first_is_not_after_last check (first_seq <= last_seq)
);

create trigger seal_no_update before update or delete on cortex.audit_seal
  for each row execute function cortex.refuse_change();
create trigger seal_no_truncate before truncate on cortex.audit_seal execute function cortex.refuse_change();

create table cortex.seal_export (
  target text primary key check (length(target) = 64),
  number bigint not null check (number > 0)
);
comment on table cortex.seal_export is 'Which seals were sent elsewhere.';
comment on column cortex.seal_export.target is 'SHA-256 of the address.';
comment on column cortex.seal_export.number is 'The last seal that was sent.';

create function cortex.take_transaction_id() returns trigger language plpgsql as $$
begin
  perform pg_current_xact_id();
  return null;
end $$;
create trigger audit_takes_transaction_id before insert on cortex.audit_log
  for each statement execute function cortex.take_transaction_id();

-- For people who look, newest first. Those of one object are few; they have their index already. Completions are most of
-- all entries, and nobody asks who completed what: each of these indexes would cost every job for nothing.
create index audit_log_newest on cortex.audit_log (at, seq);
create index audit_log_of_actor on cortex.audit_log (actor, at, seq) where actor is not null and action <> 'JOB_COMPLETED';
create index audit_log_of_action on cortex.audit_log (action, at, seq) where action <> 'JOB_COMPLETED';
create index audit_log_of_tenant on cortex.audit_log (tenant_id, at, seq) where tenant_id is not null and action <> 'JOB_COMPLETED';

comment on table cortex.audit_seal is 'Proves that audit_log is as it was written, a batch in each row. Never changed.';
comment on column cortex.audit_seal.number is 'From 1, without gaps.';
comment on column cortex.audit_seal.first_seq is 'The first entry that was there. It covers all since the seal before.';
comment on column cortex.audit_seal.last_seq is 'The last entry that it covers.';
comment on column cortex.audit_seal.entries is 'How many entries it covers.';
comment on column cortex.audit_seal.fingerprints is 'For each entry, in order: seq in 8 bytes, SHA-256 of the rest in 32.';
comment on column cortex.audit_seal.digest is 'SHA-256 over number, previous digest, time and fingerprints.';
comment on column cortex.audit_seal.previous_digest is 'The digest of the seal before; 64 zeros for the first.';
comment on column cortex.audit_seal.sealed_at is 'When.';
