"""People: users, roles, user groups, tenants, sessions, keys, sign-in."""
