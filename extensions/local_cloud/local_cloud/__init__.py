"""The local cloud: an AWS API on loopback whose instances are Linux containers."""
