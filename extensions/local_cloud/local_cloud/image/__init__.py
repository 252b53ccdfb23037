"""The image that instances boot, and the environments of frameworks that they all share."""
