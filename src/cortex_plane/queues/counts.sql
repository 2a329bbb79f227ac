-- name: fold [postgres]
-- Folds changes into the counts of entries, at most :limit, and returns how many.
-- Differs: writers add changes here, so that no two of them meet.
select cortex.fold_entry_counts(cast(:limit as int)) as folded;

-- name: fold [sqlite]
-- Folds changes into the counts of entries, at most :limit, and returns how many.
-- Differs: with one writer there are no changes to fold; it counts at once.
select 0 as folded where :limit < 0;

-- name: recount [postgres]
-- Counts the entries of all queues and tenants anew.
-- Differs: a function keeps writers away meanwhile.
select cortex.recount_entries();

-- name: recount [sqlite]
-- Counts the entries of all queues and tenants anew.
-- Differs: here they were set to zero before.
insert into cortex.entry_count (scope, name, state, entries)
select 'queue', queue, state, count(*) from cortex.queue_entry group by queue, state
union all
select 'tenant', tenant_id, state, count(*) from cortex.queue_entry where queue <> 'cortex' group by tenant_id, state
union all
select 'asking', j.queue, 'held', count(*) from cortex.job j
where j.status = 'WAITING_FOR_APPROVAL'
  and j.id in (select a.job_id from cortex.approval_request a where a.outcome is null)
group by j.queue;

-- name: reset [postgres]
-- Nothing: one function forgets the counts of entries and counts anew.
-- Differs: it must keep writers away meanwhile.
select 1 where false;

-- name: reset [sqlite]
-- Forgets the counts of entries, to count them anew.
-- Differs: on PostgreSQL one function does both, because it must keep writers away.
delete from cortex.entry_count;
