"""AWS Price List: products with their prices, and the cost of what exists."""
