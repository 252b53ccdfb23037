"""Key Management Service."""
