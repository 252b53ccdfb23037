"""Checks of requests that need no state of the account."""
