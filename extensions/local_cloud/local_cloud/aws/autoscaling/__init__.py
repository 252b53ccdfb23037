"""Amazon EC2 Auto Scaling: groups and their activities."""
