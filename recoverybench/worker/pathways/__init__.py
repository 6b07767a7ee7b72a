"""One controller over slices, with pathwaysutils' elasticity manager (strategy `pathways`)."""
