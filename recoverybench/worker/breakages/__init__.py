"""What a worker does to itself when a fault orders it to. One file each; see `base`."""
