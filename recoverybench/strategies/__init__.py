"""Strategies: how the job comes back. One file each; see `base` for what a strategy is."""
