"""EC2: instances, networks, and their resources."""
