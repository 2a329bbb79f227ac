-- name: add [postgres]
-- Adds the next seal. No row means that another sealer was faster, or that the chain has changed.
-- Differs: PostgreSQL wants to be told the types of what it selects.
insert into cortex.audit_seal (number, first_seq, last_seq, entries, fingerprints, digest, previous_digest, sealed_at)
select cast(:number as bigint), cast(:first_seq as bigint), cast(:last_seq as bigint), cast(:entries as int),
  cast(:fingerprints as bytea), cast(:digest as text), cast(:previous_digest as text), cortex.instant(:sealed_at)
where coalesce((select max(number) from cortex.audit_seal), 0) = cast(:number as bigint) - 1
  and not exists (
    select 1 from cortex.audit_seal
    where number = cast(:number as bigint) - 1 and (digest <> :previous_digest or last_seq >= cast(:first_seq as bigint)))
on conflict (number) do nothing
returning number;

-- name: add [sqlite]
-- Adds the next seal. No row means that another sealer was faster, or that the chain has changed.
-- Differs: PostgreSQL wants to be told the types of what it selects.
insert into cortex.audit_seal (number, first_seq, last_seq, entries, fingerprints, digest, previous_digest, sealed_at)
select :number, :first_seq, :last_seq, :entries, :fingerprints, :digest, :previous_digest, :sealed_at
where coalesce((select max(number) from cortex.audit_seal), 0) = :number - 1
  and not exists (
    select 1 from cortex.audit_seal
    where number = :number - 1 and (digest <> :previous_digest or last_seq >= :first_seq))
returning number;

-- name: count_after
-- How many entries have a higher number.
select count(*) as entries
from cortex.audit_log
where seq > :after;

-- name: delete_entries [postgres]
-- Deletes the entries in a range of numbers, all of them below the mark.
-- Differs: a function fixes the plan, so that a growing table cannot turn it into a scan.
select cortex.delete_audit_entries(:after, :through) as seq;

-- name: delete_entries [sqlite]
-- Deletes the entries in a range of numbers, all of them below the mark.
-- Differs: PostgreSQL needs a function to fix the plan.
delete from cortex.audit_log
where seq > :after and seq <= :through
returning seq;

-- name: entries
-- Entries of the audit log in a range of numbers, in order.
select seq, at, tenant_id, actor, action, object_type, object_id, reason, source, details, salt, kept
from cortex.audit_log
where seq > :after and seq <= :through
order by seq
limit :limit;

-- name: exported
-- The number of the last seal that was sent to a target.
select number
from cortex.seal_export
where target = :target;

-- name: hold_mark [postgres]
-- Holds the mark up to which the log was pruned. No row means that another pruner moves it, or has moved it.
-- Differs: there may be several writers here.
select seal
from cortex.audit_pruned
where seal = :seal
for update skip locked;

-- name: hold_mark [sqlite]
-- Holds the mark up to which the log was pruned. No row means that another pruner has moved it.
-- Differs: there is one writer, so nothing needs to be locked.
select seal
from cortex.audit_pruned
where seal = :seal;

-- name: last
-- The newest seal.
select number, first_seq, last_seq, entries, fingerprints, digest, previous_digest, sealed_at
from cortex.audit_seal
order by number desc
limit 1;

-- name: list
-- Seals after a number, in order.
select number, first_seq, last_seq, entries, fingerprints, digest, previous_digest, sealed_at
from cortex.audit_seal
where number > :after
order by number
limit :limit;

-- name: look [postgres]
-- The newest entry, if its number is higher, and which transactions must have ended before nothing can appear below it.
-- Differs: on SQLite whatever is visible is complete.
select seq, cast(cast(pg_current_xact_id() as text) as bigint) as horizon,
  cast(cast(pg_snapshot_xmin(pg_current_snapshot()) as text) as bigint) as oldest, :now as at
from (select seq from cortex.audit_log where seq > :after order by seq desc limit 1) newest;

-- name: look [sqlite]
-- The newest entry, if its number is higher, and which transactions must have ended before nothing can appear below it.
-- Differs: there is one writer, so whatever is visible is complete.
select seq, 0 as horizon, 1 as oldest, :now as at
from cortex.audit_log
where seq > :after
order by seq desc
limit 1;

-- name: move_mark
-- Moves the mark to a seal. The database refuses a seal that a rule still keeps, and a move that is not recorded.
update cortex.audit_pruned
set seal = :seal, digest = :digest, last_seq = :last_seq, pruned_at = :now;

-- name: note_exported
-- Notes which seal was sent to a target last.
insert into cortex.seal_export (target, number)
values (:target, :number)
on conflict (target) do update
set number = excluded.number
where seal_export.number < excluded.number;

-- name: pruned
-- How far the audit log was pruned; seal 0 before the first time.
select seal, digest, last_seq, pruned_at
from cortex.audit_pruned;
