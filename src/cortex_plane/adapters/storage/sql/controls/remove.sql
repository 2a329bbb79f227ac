-- Nothing is set any more for one thing.
delete from cortex.control where scope = :scope and name = :name;
