"""AWS Systems Manager: Parameter Store."""
