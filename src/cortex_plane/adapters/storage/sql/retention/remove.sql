-- Removes a rule. No row means that there is none.
delete from cortex.retention_rule
where id = :id
returning id;
