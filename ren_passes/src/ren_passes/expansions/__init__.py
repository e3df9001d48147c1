"""How composite logical operations are written with simple ones. Each function gets an `Emit` and returns the value of the result."""
