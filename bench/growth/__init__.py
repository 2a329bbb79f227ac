"""What each operation costs with a million jobs of many kinds, as a ratio to a database with a few thousand."""
