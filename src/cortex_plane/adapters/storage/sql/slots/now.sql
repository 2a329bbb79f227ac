-- The time by which everybody goes.
select :now as now;
