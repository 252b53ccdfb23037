"""The image that instances boot, and the PyTorch environment that they all share."""
