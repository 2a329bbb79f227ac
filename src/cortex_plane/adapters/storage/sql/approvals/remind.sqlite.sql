-- Counts a reminder of an open request, if one is due or somebody asked for it, and plans the next. No row: neither.
-- Differs: how instants are added.
update cortex.approval_request
set reminders = reminders + 1,
  remind_at = case when (:now + cast(round(1000000 * remind_after_seconds) as integer)) < expires_at then (:now + cast(round(1000000 * remind_after_seconds) as integer)) end
where id = :id
  and outcome is null
  and expires_at > :now
  and (:asked_for or remind_at <= :now)
returning id;
