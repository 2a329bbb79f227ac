-- Removes an address. No row: there is none.
delete from cortex.channel_mapping
where id = :id
returning id;
