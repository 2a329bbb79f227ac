-- Counts one more try; begins anew when the window has passed.
-- Differs: instants have a type.
insert into cortex.rate_limit as r (bucket, hits, window_until)
values (:bucket, 1, :now + make_interval(secs => cast(:window_seconds as double precision)))
on conflict (bucket) do update
set hits = case when r.window_until <= :now then 1 else r.hits + 1 end,
  window_until = case when r.window_until <= :now then excluded.window_until else r.window_until end
returning hits, cast(extract(epoch from window_until - :now) as double precision) as seconds_left;
