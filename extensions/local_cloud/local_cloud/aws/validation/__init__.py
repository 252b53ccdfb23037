"""Checks that AWS makes on a request before it looks at the account."""
