"""How fast durable steps are: agents that record every step before they take the next."""
