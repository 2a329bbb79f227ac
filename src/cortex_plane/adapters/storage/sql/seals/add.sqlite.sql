-- Adds the next seal. No row means that another sealer was faster, or that the chain has changed.
-- Differs: PostgreSQL wants to be told the types of what it selects.
insert into cortex.audit_seal (number, first_seq, last_seq, entries, fingerprints, digest, previous_digest, sealed_at)
select :number, :first_seq, :last_seq, :entries, :fingerprints, :digest, :previous_digest, :sealed_at
where coalesce((select max(number) from cortex.audit_seal), 0) = :number - 1
  and not exists (
    select 1 from cortex.audit_seal
    where number = :number - 1 and (digest <> :previous_digest or last_seq >= :first_seq))
returning number;
