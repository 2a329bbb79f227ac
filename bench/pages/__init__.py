"""How long lists and pages take with a million jobs in the database."""
