"""How long a slot takes, with few schedules and with very many."""
