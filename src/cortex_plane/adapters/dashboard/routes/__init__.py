"""One file for each page, or for what is done on it."""
