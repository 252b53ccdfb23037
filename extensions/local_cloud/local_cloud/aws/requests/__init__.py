"""Requests to AWS: what they ask, and how they are answered, held, or made to fail."""
