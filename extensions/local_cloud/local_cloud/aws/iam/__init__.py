"""Identity and Access Management."""
