"""Amazon EC2: instances, VPC networks, and what belongs to them."""
