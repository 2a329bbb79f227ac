-- Sets everything for one thing.
-- Differs: PostgreSQL wants to be told the types of what may be null.
insert into cortex.control
  (scope, name, paused, paused_by, paused_at, pause_reason, max_running, fair_share, budget_cents, on_exhausted, updated_by, updated_at)
values (:scope, :name, :paused, cast(:paused_by as text), case when :paused then :now end, cast(:pause_reason as text),
  cast(:max_running as int), :fair_share, cast(:budget_cents as bigint), cast(:on_exhausted as text), cast(:updated_by as text), :now)
on conflict (scope, name) do update
set paused = excluded.paused,
  paused_by = excluded.paused_by,
  paused_at = case when excluded.paused then coalesce(control.paused_at, excluded.paused_at) end,
  pause_reason = excluded.pause_reason,
  max_running = excluded.max_running,
  fair_share = excluded.fair_share,
  budget_cents = excluded.budget_cents,
  on_exhausted = excluded.on_exhausted,
  updated_by = excluded.updated_by,
  updated_at = excluded.updated_at;
