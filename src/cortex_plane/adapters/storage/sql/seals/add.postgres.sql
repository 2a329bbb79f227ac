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
