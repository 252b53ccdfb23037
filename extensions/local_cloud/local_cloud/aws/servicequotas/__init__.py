"""Service Quotas."""
