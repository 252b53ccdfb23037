"""HTTP requests to AWS: parsing, errors, injected faults, held calls, and client tokens."""
