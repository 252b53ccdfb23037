"""AWS Identity and Access Management: policy simulation."""
