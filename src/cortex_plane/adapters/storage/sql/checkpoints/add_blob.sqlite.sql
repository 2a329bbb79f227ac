-- Keeps one large result that a checkpoint refers to; one that is there already is left alone.
-- Only on SQLite: PostgreSQL does this inside its function.
insert into cortex.job_blob (job_id, sha256, content, created_at)
select :job_id, :digest, :content, :now
where not exists (select 1 from cortex.job_blob where job_id = :job_id and sha256 = :digest);
