"""The image of hosts, and the framework environments that hosts share."""
