"""Checks of requests that do not depend on the state of the account."""
