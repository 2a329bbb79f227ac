-- Whether a job waits, and at which revision it is.
select status, revision
from cortex.job
where id = :id;
