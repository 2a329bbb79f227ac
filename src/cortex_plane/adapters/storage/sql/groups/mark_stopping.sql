-- From now on a failure does nothing more to the members of this group.
update cortex.job_group
set stopping = true
where id = :id;
