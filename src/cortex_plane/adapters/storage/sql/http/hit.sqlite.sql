-- Counts one more try; begins anew when the window has passed.
-- Differs: instants are numbers.
insert into cortex.rate_limit (bucket, hits, window_until)
values (:bucket, 1, :now + cast(:window_seconds * 1000000 as integer))
on conflict (bucket) do update
set hits = iif(rate_limit.window_until <= :now, 1, rate_limit.hits + 1),
  window_until = iif(rate_limit.window_until <= :now, excluded.window_until, rate_limit.window_until)
returning hits, (window_until - :now) / 1000000.0 as seconds_left;
