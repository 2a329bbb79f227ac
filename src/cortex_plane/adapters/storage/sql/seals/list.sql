-- Seals after a number, in order.
select number, first_seq, last_seq, entries, fingerprints, digest, previous_digest, sealed_at
from cortex.audit_seal
where number > :after
order by number
limit :limit;
