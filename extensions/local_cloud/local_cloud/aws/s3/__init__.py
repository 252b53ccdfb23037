"""Simple Storage Service."""
