-- Removes a template. Jobs that were made from it keep everything. No row means that there is none.
delete from cortex.job_template
where tenant_id = :tenant_id and name = :name
returning id, version;
