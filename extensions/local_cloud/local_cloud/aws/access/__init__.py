"""Authentication and authorization of requests: signatures, identities, and policies."""
