"""Faults: what is broken. One file each; see `base` for what a fault is."""
