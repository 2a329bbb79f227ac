-- What is set for one thing.
select scope, name, paused, paused_by, paused_at, pause_reason, max_running, fair_share, budget_cents, on_exhausted, updated_by, updated_at
from cortex.control
where scope = :scope and name = :name;
