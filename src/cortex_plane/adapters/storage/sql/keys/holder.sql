-- What becomes of a key depends on the job that holds it.
select status, run_at from cortex.job where id = :id;
