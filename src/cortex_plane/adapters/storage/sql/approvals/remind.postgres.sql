-- Counts a reminder of an open request, if one is due or somebody asked for it, and plans the next. No row: neither.
-- Differs: how instants are added.
update cortex.approval_request
set reminders = reminders + 1,
  remind_at = case when cortex.now() + remind_after_seconds * interval '1 second' < expires_at then cortex.now() + remind_after_seconds * interval '1 second' end
where id = :id
  and outcome is null
  and expires_at > :now
  and (cast(:asked_for as boolean) or remind_at <= :now)
returning id;
