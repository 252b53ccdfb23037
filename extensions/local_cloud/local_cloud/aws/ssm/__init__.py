"""Systems Manager."""
