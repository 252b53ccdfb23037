"""Service Quotas: values and their API."""
