"""EC2 Auto Scaling."""
