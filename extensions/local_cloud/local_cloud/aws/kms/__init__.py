"""AWS Key Management Service: lookup of keys."""
