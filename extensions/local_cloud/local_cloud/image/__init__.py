"""The image of hosts, and the environments of frameworks that hosts share."""
