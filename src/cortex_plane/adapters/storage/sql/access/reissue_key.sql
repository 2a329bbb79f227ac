-- Gives a key that was added, and never shown, a new secret. No row means that it was not added.
update cortex.api_key
set prefix = :prefix, hash = :hash
where id = :id
returning id;
