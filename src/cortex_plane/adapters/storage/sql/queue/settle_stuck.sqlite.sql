-- Settles serial keys that nobody holds though jobs wait for them: their holder's transaction was undone at a bad moment.
-- Differs: with one writer that cannot happen, so there is nothing to settle.
select 1 as settled where false;
