-- Whether a slot's job has ended, or is gone: no row means that it goes on.
select 1 as ended
where not exists (select 1 from cortex.job where id = :id and finished_at is null);
