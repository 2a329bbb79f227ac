-- Each schedule has a grant of its own, so there are many: a tenant's are listed by this, a page at a time.
create index execution_grant_of_tenant on cortex.execution_grant (tenant_id, id);
