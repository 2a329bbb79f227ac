-- Those of the jobs that are as asked for, newest first. The plane's own are left out unless their queue is named.
-- Differs: lists are JSON text.
select j.id, j.tenant_id, j.job_type, j.queue, j.status, j.priority, j.attempt, j.wait_reason, j.error_message, j.tags,
  j.cost_cents, j.revision, j.created_at, j.updated_at, j.finished_at
from json_each(:ids) i
join cortex.job j on j.id = i.value
where (:tenant_id is null or j.tenant_id = :tenant_id)
  and (:status is null or j.status = :status)
  and (:agent_id is null or j.agent_id = :agent_id)
  and (j.queue = :queue or (:queue is null and j.queue <> 'cortex'))
  and (:tag is null or exists (select 1 from json_each(j.tags) t where t.value = :tag))
  and (:text is null or instr(lower(j.payload), lower(:text)) > 0)
  and j.created_at >= :since
  and j.created_at < :until
order by j.id desc
limit :limit;
