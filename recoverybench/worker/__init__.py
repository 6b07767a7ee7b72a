"""What runs inside the training process; the only part of the package that touches JAX."""
