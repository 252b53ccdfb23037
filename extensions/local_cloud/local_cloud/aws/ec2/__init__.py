"""Amazon EC2: instances, VPC networks, and resources that belong to them."""
