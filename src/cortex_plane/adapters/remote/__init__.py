"""A plane behind a server: the same methods and the same values, through the HTTP API instead of the database."""
