-- The newest seal.
select number, first_seq, last_seq, entries, fingerprints, digest, previous_digest, sealed_at
from cortex.audit_seal
order by number desc
limit 1;
